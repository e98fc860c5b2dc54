"""Shape an ATen graph for the compiler: only tensors go in, only newly computed tensors come out.

AOTAutograd's graphs hand back inputs unchanged, ``None`` for gradients nobody needs, the same tensor twice,
and constants. None of that is work for a compiler: it is a recipe for putting the answer together afterwards.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from .errors import DynamicShapeError

DYNAMIC_SHAPE_MESSAGE = (
    "the neuron compiler builds executables for static shapes: torch.compile(dynamic=True) and symbolic "
    "sizes are not supported. Leave `dynamic` unset; a new shape is compiled when it is first seen"
)


@dataclass(frozen=True)
class ResultSpec:
    """What a computed output must look like: sizes, strides in elements, dtype, device."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True)
class FromInput:
    """This output is argument ``index`` of the graph, unchanged."""

    index: int


@dataclass(frozen=True)
class FromProgram:
    """This output is result ``index`` of the compiled program."""

    index: int


@dataclass(frozen=True)
class Constant:
    """This output is a fixed Python value or tensor."""

    value: Any


@dataclass(frozen=True)
class Empty:
    """This output has no elements, hence nothing to compute; each run makes a new one of ``spec``."""

    spec: ResultSpec


Source = FromInput | FromProgram | Constant | Empty


@dataclass
class Plan:
    """A graph split into the part to compile and the recipe around it.

    ``module`` takes the graph's arguments ``inputs`` (indices), then ``constants``, and returns ``results``.
    """

    module: GraphModule
    inputs: list[int]
    constants: list[torch.Tensor]
    results: list[ResultSpec]
    outputs: list[Source]
    operators: Counter[tuple[str, str]]


def operator_name(overload: torch._ops.OpOverload) -> str:
    """``aten::add.Tensor``; the default overload has no suffix."""
    return str(overload.name())


def overload_of(name: str) -> torch._ops.OpOverload:
    """The overload that `operator_name` calls so."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    found: torch._ops.OpOverload = getattr(
        getattr(getattr(torch.ops, namespace), base), overload or "default"
    )
    return found


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def call_dtype(node: Node) -> str:
    """Dtype of the node's first tensor argument, of its first result where it takes none, else ``none``."""
    for value in (*_tensors((node.args, node.kwargs)), *_tensors(node.meta.get("val"))):
        return dtype_name(value.dtype)
    return "none"


def call_signature(node: Node) -> str:
    """The overload ``node`` calls and its arguments, tensors by dtype, sizes, strides and offset."""
    described = map_arg((node.args, dict(node.kwargs)), _describe)
    return f"{node.target} {described}"


def _describe(node: Node) -> Any:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{tuple(value.shape)}{value.stride()}+{value.storage_offset()}"
    return str(value)


def describe(module: GraphModule) -> str:
    """All of a plan's graph that lowering looks at: calls, arguments, and how each tensor is laid out.

    Two graphs with the same description lower to the same program.
    """
    numbers: dict[Node, str] = {}
    lines = []
    for node in module.graph.nodes:
        numbers[node] = f"%{len(numbers)}"
        # A placeholder's target is but a name.
        target = "" if node.op == "placeholder" else node.target
        arguments = map_arg((node.args, dict(node.kwargs)), lambda argument: _Number(numbers[argument]))
        lines.append(f"{numbers[node]} {node.op} {target} {arguments} {_looks(node.meta.get('val'))}")
    return "\n".join(lines)


class _Number(str):
    __slots__ = ()
    __repr__ = str.__str__


def _looks(value: Any) -> str:
    return " ".join(
        f"{tensor.dtype}{tuple(tensor.shape)}{tensor.stride()}+{tensor.storage_offset()}"
        for tensor in _tensors(value)
    )


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Node):
        return _tensors(value.meta.get("val"))
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def count_operators(graph: Graph) -> Counter[tuple[str, str]]:
    """Calls per (overload, dtype) in ``graph``."""
    return Counter(
        (operator_name(node.target), call_dtype(node))
        for node in graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    )


def refuse_symbols(values: Sequence[Any]) -> None:
    """Raise DynamicShapeError where ``values`` (tensors, numbers) hold a symbolic size or number."""
    for value in values:
        symbolic = isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
        if isinstance(value, torch.Tensor):
            symbolic = any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))
        if symbolic:
            raise DynamicShapeError(DYNAMIC_SHAPE_MESSAGE)


def make_plan(module: GraphModule) -> Plan:
    """Split ``module`` (an ATen graph with metadata, as AOTAutograd makes it). Raises DynamicShapeError."""
    refuse_symbols([node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"])
    arguments = [node for node in module.graph.nodes if node.op == "placeholder"]
    outputs, computed = _sort_outputs(module, arguments)
    graph, copies = _copy_calls(module)
    inputs = [index for index, node in enumerate(arguments) if copies[node].users]
    constant_nodes = [node for node in copies if node.op == "get_attr" and copies[node].users]
    graph.output(tuple(copies[node] for node in computed))
    graph.eliminate_dead_code()
    # Dead code may have been the only reader of an input.
    inputs = [index for index in inputs if copies[arguments[index]].users or arguments[index] in computed]
    constant_nodes = [node for node in constant_nodes if copies[node].users]
    _drop_unused_placeholders(graph)
    return Plan(
        module=GraphModule({}, graph),
        inputs=inputs,
        constants=[attribute(module, node) for node in constant_nodes],
        results=[_spec(node.meta["val"]) for node in computed],
        outputs=outputs,
        operators=count_operators(graph),
    )


def _sort_outputs(module: GraphModule, arguments: list[Node]) -> tuple[list[Source], list[Node]]:
    """Where each output comes from, and the nodes to compute, each once."""
    (output_node,) = (node for node in module.graph.nodes if node.op == "output")
    returned = output_node.args[0]
    returned = returned if isinstance(returned, (list, tuple)) else (returned,)
    outputs: list[Source] = []
    computed: list[Node] = []
    for value in returned:
        if not isinstance(value, Node):
            outputs.append(Constant(value))
        elif value.op == "placeholder":
            outputs.append(FromInput(arguments.index(value)))
        elif value.op == "get_attr":
            outputs.append(Constant(attribute(module, value)))
        elif not isinstance(value.meta.get("val"), torch.Tensor):
            raise DynamicShapeError(DYNAMIC_SHAPE_MESSAGE)
        elif not value.meta["val"].numel():
            outputs.append(Empty(_spec(value.meta["val"])))
        else:
            if value not in computed:
                computed.append(value)
            outputs.append(FromProgram(computed.index(value)))
    return outputs, computed


def _copy_calls(module: GraphModule) -> tuple[Graph, dict[Node, Node]]:
    """A copy without the output, in which a constant is one more placeholder after the arguments."""
    graph, copies = Graph(), {}
    leaves = [node for node in module.graph.nodes if node.op == "placeholder"]
    leaves += [node for node in module.graph.nodes if node.op == "get_attr"]
    for node in leaves:
        copies[node] = graph.placeholder(node.name)
        value = node.meta.get("val")
        copies[node].meta["val"] = attribute(module, node) if node.op == "get_attr" else value
    for node in module.graph.nodes:
        if node.op == "call_function":
            copies[node] = graph.node_copy(node, copies.__getitem__)
        elif node.op in ("call_module", "call_method"):
            raise TypeError(f"not an ATen graph: {node.op} {node.target}")
    return graph, copies


def _drop_unused_placeholders(graph: Graph) -> None:
    for node in list(graph.nodes):
        if node.op == "placeholder" and not node.users:
            graph.erase_node(node)


def attribute(module: GraphModule, node: Node) -> Any:
    """What the ``get_attr`` node stands for."""
    return operator.attrgetter(str(node.target))(module)


def _spec(value: torch.Tensor) -> ResultSpec:
    return ResultSpec(tuple(value.shape), tuple(value.stride()), value.dtype, value.device)
