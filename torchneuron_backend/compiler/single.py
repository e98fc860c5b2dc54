"""One call of one overload as a graph of its own.

The lowering probe compiles and runs such graphs to find out what is native, and the compiled engine to run
what is: what the one has proved is what the other does.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from . import lowering, mersenne
from .rewrites.random import RANDOM, numbers_drawn, without_generator


def trace(
    overload: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any
) -> tuple[GraphModule, list[torch.Tensor]]:
    """A graph of ``overload(*args, **kwargs)``, and the tensors that it takes: those among the arguments, in
    order.

    ``returned`` is what the CPU's kernel gives for them; the graph gives the `tensors_of` it, in order. That
    of a call that draws takes the numbers before the tensors: int64, as many as `numbers_drawn` says.
    """
    count = numbers_drawn(overload, args, kwargs)
    if count:
        values, numbers = RANDOM[overload].values, torch.empty(count, dtype=torch.int64)
        graph, inputs = _trace(values, (numbers, *args), without_generator(kwargs), returned)
        return graph, inputs[1:]
    return _trace(overload, args, kwargs, returned)


def to_stablehlo(graph: GraphModule, draws: bool) -> str:
    """StableHLO text of what `trace` gave, decomposed; the program of a call that ``draws`` takes the
    generator's state and returns it, as `mersenne.to_stablehlo_with_state` says. Raises as
    `lowering.to_stablehlo`.
    """
    return mersenne.to_stablehlo_with_state(graph) if draws else lowering.to_stablehlo(graph)


def _trace(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], returned: Any
) -> tuple[GraphModule, list[torch.Tensor]]:
    leaves, structure = tree_flatten((args, kwargs))
    graph = Graph()
    inputs: list[torch.Tensor] = []
    with FakeTensorMode() as fake:
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                inputs.append(leaf)
                leaves[index] = graph.placeholder(f"argument_{index}")
                leaves[index].meta["val"] = fake.from_tensor(leaf)
        args, kwargs = tree_unflatten(leaves, structure)
        node = graph.call_function(target, args, kwargs)
        node.meta["val"] = tree_map_only(
            torch.Tensor, lambda item: fake.from_tensor(item) if item.numel() else None, returned
        )
    lowering.return_results(graph, node, node.meta["val"])
    return GraphModule({}, graph), inputs


def tensors_of(returned: Any) -> list[torch.Tensor]:
    """The tensors of a result that hold anything: an empty one leaves nothing to compute."""
    return [item for item in tree_flatten(returned)[0] if isinstance(item, torch.Tensor) and item.numel()]


@functools.cache
def functional_form(overload: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """The overload that computes the same without writing to an argument; None if there is none in
    ``aten``. It may return what the other writes after the other's results, and lack its defaults.
    """
    namespace, _, name = overload._schema.name.partition("::")
    if namespace != "aten":
        return None
    if not overload._schema.is_mutable:
        return overload
    wanted = [_described(argument) for argument in overload._schema.arguments if not argument.is_out]
    bare = re.sub(r"_$", "", name)
    for packet in (getattr(torch.ops.aten, each, None) for each in (name, bare, f"{bare}_functional")):
        for each in _likely_first(packet, overload._overloadname) if packet else ():
            candidate = getattr(packet, each)
            offered = [_described(argument) for argument in candidate._schema.arguments]
            if not candidate._schema.is_mutable and offered[: len(wanted)] == wanted:
                return candidate
    return None


def _described(argument: Any) -> tuple[str, str]:
    return argument.name, str(argument.type)


def _likely_first(packet: Any, overload_name: str) -> list[str]:
    """``mul.out`` is ``mul.Tensor``, ``sum.IntList_out`` is ``sum.dim_IntList``, ``add_.Scalar`` is
    ``add.Scalar``.
    """
    stem = overload_name.removesuffix("out").removesuffix("_")
    return sorted(
        packet.overloads(), key=lambda name: (name != overload_name, name != stem, name != "default")
    )
