"""Calls that the compiler once hung on, refused or got wrong: against the eager CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import torchneuron_backend.compiler as compiler
from torchneuron_backend.compiler import lowering, search


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()


def compiled(function: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    return torch.compile(function, backend="neuron", fullgraph=True)


@pytest.mark.parametrize("dim", [0, -1])
def test_softmax_of_a_scalar_ends(monkeypatch: pytest.MonkeyPatch, dim: int) -> None:
    monkeypatch.setattr(lowering, "CALL_TIMEOUT_S", 10.0)
    x = torch.tensor(3.0, device="neuron", requires_grad=True)
    result = compiled(lambda x: torch.softmax(x, dim))(x)
    result.backward()
    assert (result.item(), x.grad.item()) == (1.0, 0.0)


def endless(module: Any) -> str:
    time.sleep(60)
    return ""


def test_a_lowering_without_end_is_an_error_that_names_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "lower_here", endless)
    monkeypatch.setattr(lowering, "CALL_TIMEOUT_S", -2.0)  # a second a call remains
    assert lowering.deadline_s(3) == 1.0
    monkeypatch.setattr(lowering, "deadline_s", lambda calls: 0.5)
    with pytest.raises(Exception, match="aten::sin: the compiler gave no answer in time"):
        compiled(torch.sin)(torch.ones(2, device="neuron"))


def test_the_search_gives_each_group_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(calls: Any) -> None:
        time.sleep(0.3)

    monkeypatch.setattr(search, "_lower", slow)
    monkeypatch.setattr(lowering, "deadline_s", lambda calls: 0.8)
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    calls = [graph.call_function(torch.ops.aten.sin.default, (x,)) for _ in range(4)]
    assert search.refused(calls, [[0], [1], [2], [3]]) == {}


@pytest.mark.parametrize("dim", [(0, 1), (-1, 0), ()])
@pytest.mark.parametrize("keepdim", [False, True])
def test_all_over_several_dimensions(dim: tuple[int, ...], keepdim: bool) -> None:
    x = torch.tensor([[[1.0, 2.0], [0.0, 1.0]], [[3.0, float("nan")], [1.0, 1.0]]])
    function = compiled(lambda x: torch.all(x, dim, keepdim=keepdim))
    assert torch.equal(function(x.to("neuron")).cpu(), torch.all(x, dim, keepdim=keepdim))


def test_constants_of_several_values_under_a_tape() -> None:
    """The last window reaches beyond the elements, so the windows have different divisors."""
    x = torch.arange(18.0).reshape(1, 2, 9)
    pool = nn.AvgPool1d(7, 3, ceil_mode=True)
    ours = x.to("neuron").requires_grad_()
    result = compiled(pool)(ours)
    result.sum().backward()
    theirs = x.clone().requires_grad_()
    pool(theirs).sum().backward()
    torch.testing.assert_close(result.cpu(), pool(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-5, atol=1e-5)
    assert compiler.get_dynamo_metrics()["failures"] == []


VIEWS = {
    "part": lambda base: base[5:15],
    "matrix": lambda base: base[5:17].view(3, 4),
    "transposed": lambda base: base[5:17].view(3, 4).t(),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("offset", [None, 6, 11])
def test_strided_views_count_from_where_the_memory_begins(
    view: Callable[[torch.Tensor], torch.Tensor], offset: int | None
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x, (2, 2), (1, 2), offset) + 1

    base = torch.arange(20.0)
    assert torch.equal(compiled(function)(view(base.to("neuron"))).cpu(), function(view(base)))


@pytest.mark.parametrize("offset", [2, 13])
def test_a_strided_view_beyond_what_a_program_is_given_is_refused_or_right(offset: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x, (2, 2), (1, 2), offset) + 1

    base = torch.arange(20.0)
    part = base.to("neuron")[5:15]
    with pytest.raises(Exception, match="aten::as_strided"):
        torch.compile(function, backend="neuron", options={"partition": False})(part)
    assert torch.equal(compiled(function)(part).cpu(), function(base[5:15]))
