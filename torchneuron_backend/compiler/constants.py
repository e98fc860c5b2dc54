"""What a graph computes from constants alone is computed here, by PyTorch.

Torch-MLIR 20261001 would fold it, and not always rightly: beside a float tensor it reads a negative integer
number as unsigned, in a comparison it reads the float's bits as an integer (whatever the memory holds beyond
them included, so that the result changes from process to process), a true bool is -1 to it, and whole
quotients of negative integers are unsigned.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

aten = torch.ops.aten

_FILLED = {aten.full.default, aten.zeros.default, aten.ones.default, aten.scalar_tensor.default}

# Torch-MLIR folds tensors of one value whatever their size, others up to this many elements.
_FEW = 16


def fold_constants(module: GraphModule) -> None:
    """Replace in ``module``, which was traced on fake CPU tensors, what needs no input by constants."""
    known: dict[Node, Any] = {}
    with _disable_current_modes(), torch.no_grad():  # the fake tensors' of who traces around this, above all
        for node in module.graph.nodes:
            value = _value(module, node, known)
            if value is not None:
                known[node] = value
        for number, (node, value) in enumerate(known.items()):
            computed = node.op == "call_function" and node.target not in _FILLED
            if computed and isinstance(value, torch.Tensor) and any(user not in known for user in node.users):
                _replace(module, node, value, f"_folded_constant{number}")


def _value(module: GraphModule, node: Node, known: dict[Node, Any]) -> Any:
    """What ``node`` results in, if that takes constants alone and is something Torch-MLIR would fold."""
    if node.op == "get_attr":
        attribute = operator.attrgetter(str(node.target))(module)
        return _compact(attribute) if isinstance(attribute, torch.Tensor) else None
    if node.op != "call_function" or not all(source in known for source in node.all_input_nodes):
        return None
    if node.target is operator.getitem:
        return known[node.args[0]][node.args[1]]  # type: ignore[index]
    if not _computes(node) or not (node.all_input_nodes or node.target in _FILLED):
        return None
    args, kwargs = tree_map_only(Node, known.__getitem__, (node.args, node.kwargs))
    try:
        value = node.target(*args, **kwargs)  # type: ignore[operator]
    except (RuntimeError, LookupError, ValueError):  # the program says so when it runs
        return None
    if isinstance(value, torch.Tensor):
        return _compact(value) if _like(value, node.meta.get("val")) else None
    pieces = [_compact(piece) if isinstance(piece, torch.Tensor) else None for piece in value]
    return None if any(piece is None for piece in pieces) else pieces


def _computes(node: Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    return not target._schema.is_mutable and bool(target._schema.returns)


def _like(value: torch.Tensor, traced: Any) -> bool:
    return isinstance(traced, torch.Tensor) and (value.shape, value.dtype) == (traced.shape, traced.dtype)


def _compact(value: torch.Tensor) -> torch.Tensor | None:
    """``value`` with one value stored once; None if it has many."""
    if value.numel() == 0 or value.dtype.is_complex or value.layout is not torch.strided:
        return None
    first = value[(0,) * value.ndim]
    if value.numel() > 1 and not _all_equal(value, first):
        return value if value.numel() <= _FEW else None
    return first.clone().expand(value.shape)


def _all_equal(value: torch.Tensor, first: torch.Tensor) -> bool:
    """Bit by bit: a negative zero is not a zero, and a NaN is itself."""
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.element_size()]
    return bool((value.view(integers) == first.view(integers)).all())


def _replace(module: GraphModule, node: Node, value: torch.Tensor, name: str) -> None:
    with module.graph.inserting_before(node):
        if value.numel() == 1 or set(value.stride()) == {0}:
            constant = module.graph.call_function(
                aten.full.default,
                (list(value.shape), value[(0,) * value.ndim].item()),
                {"dtype": value.dtype, "device": torch.device("cpu"), "pin_memory": False},
            )
        else:
            module.register_buffer(name, value.contiguous())
            constant = module.graph.get_attr(name)
    constant.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(constant)
    module.graph.erase_node(node)
