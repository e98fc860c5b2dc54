"""What ``torch.compile(backend="neuron")`` does and refuses."""

from __future__ import annotations

import importlib
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from suites.claims.checks import (
    RefutedError,
    host_only_operator,
    numbers,
    require,
    require_equal,
    require_refusal,
)
from suites.claims.claim import Source, Subject, Topic

topic = Topic("compile")


def _function(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x @ x.t()).sum(-1)


def _compile(subject: Subject, function: Callable[..., Any], **arguments: Any) -> Callable[..., Any]:
    return torch.compile(function, backend=subject.name, **arguments)


def _graphs() -> int:
    """How many graphs Dynamo has handed over since its last reset."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))


@topic.claim("fullgraph=True is supported: a model is one graph, forward and backward.", Source.DOCUMENTATION)
def fullgraph(subject: Subject) -> None:
    before = _graphs()
    expected, actual = _model(), _model().to(subject.name)
    compiled = torch.compile(actual, backend=subject.name, fullgraph=True)
    results = []
    for model, device in ((expected, "cpu"), (compiled, subject.name)):
        result = model(numbers(5, 8).to(device))
        result.square().sum().backward()
        results.append(result.detach())
    require_equal(subject, results[1], results[0], "the output")
    wanted, seen = ([p.grad for p in model.parameters()] for model in (expected, actual))
    require_equal(subject, seen, wanted, "a gradient")
    require(_graphs() - before == 1, f"{_graphs() - before} graphs were captured")


@topic.claim("A graph is compiled without Inductor.", Source.DOCUMENTATION, Source.LAUNCH_POST)
def no_inductor(subject: Subject) -> None:
    from torch._dynamo.utils import counters

    before = dict(counters["inductor"])
    x = numbers(6, 8)
    require_equal(subject, _compile(subject, _function)(x.to(subject.name)), _function(x), "the result")
    require(dict(counters["inductor"]) == before, f"Inductor counted {dict(counters['inductor'])}")


@topic.claim("AOTAutograd makes the graphs that are compiled.", Source.DOCUMENTATION, Source.LAUNCH_POST)
def through_aot_autograd(subject: Subject) -> None:
    from torch._dynamo.utils import counters

    before = counters["aot_autograd"]["ok"]
    x = numbers(7, 8).to(subject.name).requires_grad_()
    _compile(subject, _function)(x).sum().backward()
    passed = counters["aot_autograd"]["ok"] - before
    require(passed == 1, f"{passed} graphs went through AOTAutograd")


@topic.claim("dynamic=True is rejected.", Source.DOCUMENTATION)
def dynamic_is_rejected(subject: Subject) -> None:
    compiled = _compile(subject, _function, dynamic=True)
    x = numbers(5, 8).to(subject.name)
    require_refusal("dynamic=True", lambda: compiled(x), "dynamic", "symbolic")


@topic.claim("A shape that varies is compiled anew for each value that it takes.", Source.DOCUMENTATION)
def a_graph_per_shape(subject: Subject) -> None:
    before, compiled = _graphs(), _compile(subject, lambda x: x * 2 + 1)
    for size in (3, 5, 9, 3, 5):
        x = numbers(size)
        require_equal(subject, compiled(x.to(subject.name)), x * 2 + 1, f"the result for {size} numbers")
    require(_graphs() - before == 3, f"{_graphs() - before} graphs for 3 shapes")


@topic.claim("After 8 shapes Dynamo gives a frame up, and it runs eagerly.", Source.DOCUMENTATION)
def eager_after_eight_shapes(subject: Subject) -> None:
    before, compiled = _graphs(), _compile(subject, lambda x: x * 3 - 1)
    for size in range(2, 13):
        x = numbers(size)
        require_equal(subject, compiled(x.to(subject.name)), x * 3 - 1, f"the result for {size} numbers")
    require(_graphs() - before == 8, f"{_graphs() - before} graphs for 11 shapes")


@topic.claim("A mode other than the default gives a warning and is ignored.", Source.DOCUMENTATION, fresh={})
def mode_is_ignored(subject: Subject) -> None:
    x = numbers(5, 8)
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = _compile(subject, _function, mode="max-autotune")(x.to(subject.name))
    said += [str(warning.message) for warning in caught]
    require_equal(subject, result, _function(x), "the result")
    require(any("mode" in text for text in said), f"no warning speaks of the mode; there were {len(said)}")


@topic.claim(
    "options reads a few keys, fallback_execution among them: what does not compile then runs eagerly.",
    Source.DOCUMENTATION,
    recorded=False,
)
def option_fallback_execution(subject: Subject) -> None:
    x = numbers(4)
    with host_only_operator() as operator:
        compiled = _compile(subject, lambda x: operator(x), options={"fallback_execution": True})
        require_equal(subject, compiled(x.to(subject.name)), 2 * x, "the result of the eager graph")


@topic.claim("A compile that fails raises by default.", Source.DOCUMENTATION, recorded=False)
def a_failed_compile_raises(subject: Subject) -> None:
    with host_only_operator() as operator:
        compiled = _compile(subject, lambda x: operator(x), fullgraph=True)
        x = numbers(4).to(subject.name)
        require_refusal("a graph of an operator that only the CPU has", lambda: compiled(x), "double_on_host")


@topic.claim(
    'torch.compiler.set_default_backend("neuron") once, and model.compile() compiles for the device.',
    Source.LAUNCH_POST,
)
def default_backend(subject: Subject) -> None:
    torch.compiler.set_default_backend(subject.name)
    seen = torch.compiler.get_default_backend()
    require(seen == subject.name, f"the default backend is {seen!r}")
    model, before = _Scaled().to(subject.name), _graphs()
    model.compile()
    x = numbers(4, 4)
    require_equal(subject, model(x.to(subject.name)), x * 2 + 1, "the result")
    require(_graphs() - before == 1, f"{_graphs() - before} graphs were captured")


class _Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1


@topic.claim("Graph breaks are supported; each piece compiles on its own.", Source.DOCUMENTATION)
def graph_breaks(subject: Subject) -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x * 2 + 1
        torch._dynamo.graph_break()
        return y.square() - 3

    before, x = _graphs(), numbers(4, 4)
    expected = (x * 2 + 1).square() - 3
    require_equal(subject, _compile(subject, broken)(x.to(subject.name)), expected, "the result")
    require(_graphs() - before == 2, f"{_graphs() - before} graphs around one break")


@topic.claim(
    "Helpers beside the backend count what it did, get_dynamo_metrics among them.", Source.DOCUMENTATION
)
def metrics(subject: Subject) -> None:
    get_dynamo_metrics = _beside_the_backend(subject, "get_dynamo_metrics")
    before = str(get_dynamo_metrics())
    x = numbers(11, 8)
    require_equal(subject, _compile(subject, _function)(x.to(subject.name)), _function(x), "the result")
    require(str(get_dynamo_metrics()) != before, "get_dynamo_metrics() says the same after a compile")


def _beside_the_backend(subject: Subject, name: str) -> Any:
    """A name of the module that registered the backend, or of the packages that it lies in."""
    from torch._dynamo.backends.registry import lookup_backend

    home = lookup_backend(subject.name).__module__
    parts = home.split(".")
    for length in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:length])) or importlib.import_module(
            ".".join(parts[:length])
        )
        if hasattr(module, name):
            return getattr(module, name)
    raise RefutedError(f"neither {home} nor what it lies in has {name}")
