"""What is told of a ``torch.compile`` in a result, and what its errors are without their wrapping."""

from __future__ import annotations

import dataclasses

from suites.device import CompileFacts, TestedDevice


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


def unwrapped(error: BaseException) -> BaseException:
    """What a compile backend raised, without the wrapping and the advice that Dynamo puts around it."""
    while (inner := getattr(error, "inner_exception", None)) is not None:
        error = inner
    return error
