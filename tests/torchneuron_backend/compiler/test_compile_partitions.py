"""Graphs that hold calls which do not lower: those run eagerly between compiled pieces."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
from torch import nn

import torchneuron_backend.compiler as compiler
from torchneuron_backend.compiler import lowering, search

from .opaque import GRADIENT_NAME, NAME, opaque

# A few float32 products summed in another order.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()


def compiled(function: Callable[..., object], **options: object) -> Callable[..., torch.Tensor]:
    return torch.compile(function, backend="neuron", fullgraph=True, **options)


def test_a_graph_that_lowers_is_one_piece_and_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "refused", None)
    compiled(lambda x: x.relu() + 1)(torch.ones(3, device="neuron"))
    metrics = compiler.get_dynamo_metrics()
    assert (metrics["partitions"], metrics["ops_eager"]) == (1, [])


def test_what_does_not_lower_runs_between_compiled_pieces_forward_and_backward() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() + torch.eye(3, device=x.device)
        return (y * opaque(y).exp()).sum()

    x = torch.rand(3, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    ours = x.detach().to("neuron").requires_grad_()
    expected, result = function(x), compiled(function)(ours)
    expected.backward()
    result.backward()
    torch.testing.assert_close(result.cpu(), expected, **TOLERANCE)
    torch.testing.assert_close(ours.grad.cpu(), x.grad, **TOLERANCE)
    metrics = compiler.get_dynamo_metrics()
    forward, backward = metrics["graphs"]
    assert (forward["kind"], backward["kind"]) == ("forward", "backward")
    assert forward["partitions"] == 2
    assert forward["ops_eager"] == [(NAME, 1)]
    assert backward["partitions"] == 2
    assert backward["ops_eager"] == [(GRADIENT_NAME, 1)]
    assert metrics["ops_eager"] == [(NAME, 1), (GRADIENT_NAME, 1)]
    assert (metrics["graphs_compiled"], metrics["executions"], metrics["failures"]) == (2, 2, [])
    inside = {op.operator for op in compiler.compiled_ops()}
    assert {"aten::sin", "aten::exp", "aten::sum"} <= inside
    assert NAME not in inside


def test_only_the_calls_that_do_not_lower_are_eager_not_all_of_their_overload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = lowering.lower_here

    def refuse_sums_over_rows(module: torch.fx.GraphModule) -> str:
        for node in module.graph.nodes:
            if node.target is torch.ops.aten.sum.dim_IntList and node.args[1] == [0]:
                raise ValueError("rows")
        return real(module)

    monkeypatch.setattr(lowering, "lower_here", refuse_sums_over_rows)
    x = torch.arange(6.0).reshape(2, 3)
    result = compiled(lambda v: v.sum(0).exp().sum() + v.sum(1).sum())(x.to("neuron"))
    torch.testing.assert_close(result.cpu(), x.sum(0).exp().sum() + x.sum(), **TOLERANCE)
    (graph,) = compiler.get_dynamo_metrics()["graphs"]
    assert graph["ops_eager"] == [("aten::sum.dim_IntList", 1)]
    assert ("aten::sum.dim_IntList", 1) in {(op.operator, op.calls) for op in compiler.compiled_ops()}


def test_dropout_in_training_draws_from_the_device_generator_as_eager_does() -> None:
    model = nn.Sequential(
        nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8), nn.Dropout(0.25), nn.Linear(8, 2)
    )
    model = model.to("neuron").train()
    x = torch.ones(4, 8, device="neuron")

    def run(function: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        model.zero_grad()
        torch.manual_seed(3)
        result = function(x)
        result.sum().backward()
        return [result.detach().cpu(), *(parameter.grad.cpu() for parameter in model.parameters())]

    fast = compiled(model)
    expected, first, second = run(model), run(fast), run(fast)
    for one, two, three in zip(expected, first, second, strict=True):
        torch.testing.assert_close(two, one, **TOLERANCE)
        assert torch.equal(two, three)
    forward, backward = compiler.get_dynamo_metrics()["graphs"]
    assert forward["partitions"] == 3
    assert sum(calls for _, calls in forward["ops_eager"]) == 2
    assert (backward["partitions"], backward["ops_eager"]) == (1, [])


def test_a_higher_order_operator_runs_eagerly_and_what_does_not_lower_beside_it_too() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        chosen = torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x * 2,))
        return opaque(chosen + 1) * 3

    for sign in (1.0, -1.0):
        x = torch.full((3,), sign)
        torch.testing.assert_close(compiled(function)(x.to("neuron")).cpu(), function(x), **TOLERANCE)
    metrics = compiler.get_dynamo_metrics()
    assert metrics["ops_eager"] == [("cond", 1), (NAME, 1)]
    assert metrics["partitions"] == 3


def test_random_calls_that_do_not_depend_on_each_other_keep_their_order() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        late = torch.rand_like(opaque(x) + 1) * 2
        early = torch.rand_like(x) + 3
        return late + early

    x = torch.eye(2, device="neuron")
    torch.manual_seed(0)
    expected = function(x)
    torch.manual_seed(0)
    torch.testing.assert_close(compiled(function)(x), expected, **TOLERANCE)


def test_a_graph_in_which_nothing_compiles_is_an_error() -> None:
    with pytest.raises(Exception, match=NAME) as raised:
        compiled(lambda x: opaque(x.t()).t())(torch.ones(2, 2, device="neuron"))
    error = compiler.find_compiler_error(raised.value)
    assert isinstance(error, compiler.UnsupportedOperatorError)
    assert compiler.get_dynamo_metrics()["graphs_compiled"] == 0


def test_an_option_nobody_knows_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(Exception, match="does not know the options fast; it knows partition and") as raised:
        compiled(lambda x: x + 1, options={"fast": True})(torch.ones(2, device="neuron"))
    assert isinstance(compiler.find_compiler_error(raised.value), compiler.OptionError)


def test_a_mode_is_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    from torchneuron_backend.compiler import backend

    backend._warn_about_mode.cache_clear()
    with caplog.at_level(logging.WARNING):
        for number in (1, 2):
            function = compiled(lambda x, number=number: x + number, mode="max-autotune")
            assert function(torch.zeros(1, device="neuron")).item() == number
    assert [record.message for record in caplog.records if "max-autotune" in record.message] == [
        "torch.compile(backend='neuron') ignores mode='max-autotune'"
    ]
