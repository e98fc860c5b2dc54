"""What is told of a ``torch.compile`` in a result, and what its errors are without their wrapping."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from suites.device import CompileFacts, TestedDevice

if TYPE_CHECKING:
    from torch.fx import GraphModule

NO_GRAPH = "Dynamo finds no graph to compile in it, on the CPU neither"


def start_compiling(device: TestedDevice) -> None:
    """Forget what was compiled and counted before."""
    import torch
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    device.compile_facts(reset=True)


def compile_metrics(facts: CompileFacts) -> dict[str, float]:
    """What the backend says it did since :func:`start_compiling`, and the graph breaks Dynamo counted."""
    from torch._dynamo.utils import counters

    told = {f.name: getattr(facts, f.name) for f in dataclasses.fields(facts) if f.name != "calls"}
    metrics = {f"compile_{name}": float(value) for name, value in told.items()}
    return metrics | {"compile_graph_breaks": float(sum(counters["graph_break"].values()))}


def finds_graph(call: Callable[[Callable[..., Any]], Any]) -> bool:
    """Whether Dynamo finds a graph in a call on the CPU, with a backend that takes every graph.

    It leaves to the interpreter what it cannot trace, say an output whose size depends on values, and
    functions that open with a recurrent layer.

    Args:
        call: does it; takes what compiles a function.
    """
    import torch

    graphs = []

    def keep(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    call(lambda function: torch.compile(function, backend=keep))
    return bool(graphs)


def unwrapped(error: BaseException) -> BaseException:
    """What a compile backend raised, without the wrapping and the advice that Dynamo puts around it."""
    while (inner := getattr(error, "inner_exception", None)) is not None:
        error = inner
    return error
