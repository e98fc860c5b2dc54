"""Higher-order operators, which hold graphs of their own, written out in the graph that calls them.

What is written out lowers like any other call. The rest (`cond`, `while_loop`, `scan`, `map`) depends on data
or repeats a graph, and runs eagerly between compiled pieces; its inner calls run on the device one by one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from .errors import UnsupportedOperatorError
from .graph import attribute

_TRITON = "a Triton kernel is code for a GPU, and the neuron device has no compiler for it"


def write_out(module: GraphModule) -> GraphModule:
    """``module``, changed in place: no call of FlexAttention or of a nested compile region is left in it.

    Raises UnsupportedOperatorError for Triton kernels, which nothing here can run.
    """
    _refuse_triton(module)
    while calls := [(node, body) for node in module.graph.nodes if (body := _body(node, module))]:
        for node, body in calls:
            _replace(module, node, body)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def _refuse_triton(module: GraphModule) -> None:
    names = [str(getattr(node.target, "__name__", node.target)) for node in module.graph.nodes]
    kernels = {name: _TRITON for name in names if name.startswith("triton_kernel_wrapper")}
    if kernels:
        raise UnsupportedOperatorError(kernels)


def _body(node: Node, module: GraphModule) -> Callable[..., Any] | None:
    """What ``node`` computes, as a function of its arguments; None where it is to stay a call."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.HigherOrderOperator):
        return None
    hops = torch.ops.higher_order
    if node.target is hops.flex_attention:
        return _dense(node)
    if node.target is hops.flex_attention_backward:
        return _with_gradients_of_buffers(node, _dense(node))
    if node.target is hops.invoke_subgraph:
        return lambda subgraph, identifier, *operands: subgraph(*operands)
    return None


def _dense(node: Node) -> Callable[..., Any]:
    """FlexAttention from its definition, over the full matrix of scores."""
    key = torch._C.DispatchKey.CompositeExplicitAutograd
    return node.target.py_kernels[key]  # type: ignore[union-attr]


def _with_gradients_of_buffers(node: Node, body: Callable[..., Any]) -> Callable[..., Any]:
    """``body``, told which of the buffers that the score function reads need a gradient.

    It asks the tensors, and those of a traced backward graph do not know.
    """
    wanted = [isinstance(gradient, torch.Tensor) for gradient in node.meta["val"][-1]]

    def backward(*args: Any) -> Any:
        *others, buffers, mask_buffers = args
        told = [
            buffer.detach().requires_grad_() if needed else buffer
            for buffer, needed in zip(buffers, wanted, strict=True)
        ]
        return body(*others, tuple(told), mask_buffers)

    return backward


def _replace(module: GraphModule, node: Node, body: Callable[..., Any]) -> None:
    """Put the calls that ``body`` makes in the place of ``node``."""
    inputs = list(dict.fromkeys(source for source in node.all_input_nodes if _is_tensor(source)))
    traced = _trace(module, node, body, inputs)
    copies = dict(zip(_placeholders(traced.graph), inputs, strict=True))
    with module.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "get_attr":
                copies[inner] = _copy_constant(module, attribute(traced, inner), node.name)
            elif inner.op == "call_function":
                copies[inner] = module.graph.node_copy(inner, copies.__getitem__)
    (output,) = (inner for inner in traced.graph.nodes if inner.op == "output")
    _use_results(node, map_arg(output.args[0], copies.__getitem__), set(inputs))


def flex_rewrites() -> dict[Any, Callable[..., Any]]:
    """How to lower what FlexAttention's gradients of buffers call, once that operator exists."""
    packet = getattr(torch.ops.flex_lib, "zeros_and_scatter", None)
    return {} if packet is None else {packet.default: _zeros_and_scatter}


def _zeros_and_scatter(shape: list[int], indices: list[torch.Tensor], values: torch.Tensor) -> torch.Tensor:
    zeros = torch.zeros(shape, dtype=values.dtype, device=values.device)
    return torch.ops.aten.index_put(zeros, indices, values, accumulate=True)


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _placeholders(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _trace(module: GraphModule, node: Node, body: Callable[..., Any], inputs: list[Node]) -> GraphModule:
    def run(*tensors: torch.Tensor) -> Any:
        values = dict(zip(inputs, tensors, strict=True))

        def value_of(source: Node) -> Any:
            return values[source] if source in values else attribute(module, source)

        args, kwargs = map_arg((node.args, dict(node.kwargs)), value_of)
        return body(*args, **kwargs)

    # AOTAutograd's own fake mode must not be found: it would take our tensors for its own.
    with torch._guards.tracing(None), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        tensors = [_like(source.meta["val"]) for source in inputs]
        traced = make_fx(run, _allow_non_fake_inputs=True)(*tensors)
        # In a second step: functionalization does not let `run` ask for gradients.
        return make_fx(torch.func.functionalize(traced), _allow_non_fake_inputs=True)(*tensors)


def _like(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _copy_constant(module: GraphModule, value: Any, prefix: str) -> Node:
    number = 0
    while hasattr(module, name := f"_{prefix}_constant{number}"):
        number += 1
    if isinstance(value, torch.Tensor):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)
    copy = module.graph.get_attr(name)
    if isinstance(value, torch.Tensor):
        copy.meta["val"] = value
    return copy


def _use_results(node: Node, result: Any, inputs: set[Node]) -> None:
    """Let the readers of ``node`` read ``result`` instead, which may be a tuple of nodes, also nested."""
    if isinstance(result, (tuple, list)):
        for user in list(node.users):
            if user.target is not operator.getitem:
                raise TypeError(f"{user} reads all results of {node} at once")
            _use_results(user, result[int(str(user.args[1]))], inputs)
    elif isinstance(result, Node):
        if result not in inputs and "val" in node.meta:
            # Readers were traced with the strides that the operator promises.
            result.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(result)
    else:
        for user in list(node.users):
            user.args, user.kwargs = pytree.tree_map(
                lambda value: result if value is node else value, (user.args, dict(user.kwargs))
            )
    node.graph.erase_node(node)
