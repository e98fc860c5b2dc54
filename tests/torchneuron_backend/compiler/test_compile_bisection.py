"""Graphs that do not compile although each of their calls does, and the search for calls that do not."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import torchneuron_backend.compiler as compiler
from torchneuron_backend.compiler import bisection, lowering, partition, search
from torchneuron_backend.compiler.bisection import Span, find_spans

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()


def never(*positions: int) -> Callable[[int, int], bool]:
    """Nothing compiles that has all of these calls."""
    return lambda start, end: not all(start <= position < end for position in positions)


def test_a_pair_that_does_not_go_together_is_parted() -> None:
    assert find_spans(8, never(1, 6)) == [Span(0, 4, False), Span(4, 8, False)]
    assert find_spans(8, never(4, 5)) == [
        Span(0, 4, False),
        Span(4, 5, False),
        Span(5, 6, False),
        Span(6, 8, False),
    ]


def test_a_call_that_never_compiles_is_left_to_run_eagerly() -> None:
    assert find_spans(8, never(5)) == [
        Span(0, 4, False),
        Span(4, 5, False),
        Span(5, 6, True),
        Span(6, 8, False),
    ]
    assert find_spans(8, lambda start, end: False) == [Span(0, 8, True)]


def test_the_search_ends_after_so_many_attempts_and_so_many_seconds() -> None:
    asked: list[tuple[int, int]] = []

    def compiles(start: int, end: int) -> bool:
        asked.append((start, end))
        return not start <= 5 < end

    assert find_spans(1024, compiles, attempts=4) == [
        Span(0, 256, True),
        Span(256, 512, False),
        Span(512, 1024, False),
    ]
    assert len(asked) == 4
    assert find_spans(1024, never(5), seconds=-1.0) == [Span(0, 1024, True)]


def refuse(*targets: object) -> Callable[[torch.fx.GraphModule], str]:
    """A compiler that takes no graph in which all of ``targets`` are called."""
    real = lowering.lower_here

    def lower(module: torch.fx.GraphModule) -> str:
        if {node.target for node in module.graph.nodes} >= set(targets):
            raise ValueError("these do not go together")
        return real(module)

    return lower


def function(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() + 1).relu().exp() * 2


def test_a_graph_is_cut_anywhere_around_calls_with_several_results() -> None:
    def normalised_twice(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        once = torch.native_layer_norm(x, [4], weight, weight, 1e-5)
        twice = torch.native_layer_norm(once[0] + 1, [4], weight, weight, 1e-5)
        return twice[0] * 2, once[1], twice[2]

    inputs = torch.randn(2, 4), torch.ones(4)
    module = make_fx(normalised_twice, tracing_mode="fake")(*inputs)
    count = len(partition.calls(module))
    for start, end in combinations(range(count + 1), 2):
        around = [Span(0, start, True), Span(start, end, False), Span(end, count, True)]
        split = partition.split_at(module, [span for span in around if span.start < span.end])
        # The same kernels run in the same order.
        torch.testing.assert_close(split.module(*inputs), normalised_twice(*inputs), rtol=0, atol=0)


def test_a_graph_without_an_operator_at_fault_runs_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "lower_here", refuse(aten.sin.default, aten.exp.default))
    x = torch.linspace(-1, 1, 4)
    result = torch.compile(function, backend="neuron", fullgraph=True)(x.to("neuron"))
    torch.testing.assert_close(result.cpu(), function(x))
    metrics = compiler.get_dynamo_metrics()
    assert (metrics["partitions"], metrics["ops_eager"], metrics["failures"]) == (2, [], [])


def test_where_graphs_must_stay_whole_it_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "lower_here", refuse(aten.sin.default, aten.exp.default))
    whole = torch.compile(function, backend="neuron", options={"partition": False})
    with pytest.raises(Exception, match="Each of its operators lowers by itself") as raised:
        whole(torch.ones(2, device="neuron"))
    assert isinstance(compiler.find_compiler_error(raised.value), compiler.LoweringError)


def test_where_it_was_cut_is_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHNEURON_CACHE", "1")
    monkeypatch.setenv("TORCHNEURON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(lowering, "lower_here", refuse(aten.sin.default, aten.exp.default))
    x = torch.linspace(-1, 1, 4)
    for attempt in range(2):
        torch._dynamo.reset()
        compiler.reset_dynamo_metrics()
        result = torch.compile(function, backend="neuron", fullgraph=True)(x.to("neuron"))
        torch.testing.assert_close(result.cpu(), function(x))
        assert compiler.get_dynamo_metrics()["partitions"] == 2, attempt
        monkeypatch.setattr(lowering, "lower_here", None)
        monkeypatch.setattr(bisection, "find_spans", None)
        monkeypatch.setattr(search, "refused", None)


def calls_of(body: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.fx.Node]:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(body, tracing_mode="fake")(torch.ones(4)).graph
    return [node for node in graph.nodes if node.op == "call_function"]


def test_a_group_is_halved_until_the_refused_calls_stand_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = search._settle

    def settle(pending: list[list[int]], found: dict[int, str], reason: str | None) -> None:
        sizes.append(len(pending[-1]))
        real(pending, found, reason)

    monkeypatch.setattr(search, "_settle", settle)
    monkeypatch.setattr(lowering, "lower_here", refuse(aten.tanh.default))
    calls = calls_of(lambda x: x.sin().cos().tanh().exp().abs().neg().sigmoid().relu())
    assert list(search.refused(calls, [list(range(8))])) == [2]
    assert sizes == [8, 4, 2, 2, 1, 1, 4]


def test_a_group_that_kills_the_compiler_is_halved_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(module: torch.fx.GraphModule) -> str:
        if any(node.target is aten.tanh.default for node in module.graph.nodes):
            os.abort()
        return ""

    monkeypatch.setattr(lowering, "lower_here", die)
    calls = calls_of(lambda x: x.sin().cos().tanh().exp())
    found = search.refused(calls, [[0, 1, 2, 3]])
    assert list(found) == [2]
    assert "SIGABRT" in found[2]
