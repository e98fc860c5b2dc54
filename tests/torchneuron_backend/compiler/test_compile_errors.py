"""Compilations that fail: one sentence, one kind of exception, and nothing left behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchneuron_backend.compiler as compiler
from torchneuron_backend.compiler import artefacts, executable, lowering

from .opaque import opaque


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()


def run(function: object, **options: object) -> torch.Tensor:
    return torch.compile(function, backend="neuron", options=options)(torch.ones(2, device="neuron"))


def test_a_failed_graph_does_not_spoil_the_next_nor_itself() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return opaque(x) * 2

    for _ in range(2):
        with pytest.raises(Exception, match="1 operator does not lower to StableHLO"):
            run(function, partition=False)
    assert run(lambda x: x + 1).tolist() == [2.0, 2.0]
    torch.testing.assert_close(run(function).cpu(), torch.ones(2).sinh() * 2)
    metrics = compiler.get_dynamo_metrics()
    assert len(metrics["failures"]) == 2
    assert metrics["graphs_compiled"] == 2


def test_a_compiler_that_breaks_is_a_compiler_error_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> executable.Executable:
        raise KeyError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(artefacts, "build", broken)
        with pytest.raises(Exception, match="the neuron compiler broke on this graph") as raised:
            run(lambda x: x + 1)
    error = compiler.find_compiler_error(raised.value)
    assert isinstance(error, compiler.InternalCompilerError)
    assert isinstance(error.__cause__, KeyError)
    assert str(error).count("\n") == 0
    assert run(lambda x: x + 1).tolist() == [2.0, 2.0]


def test_a_broken_compiler_too_can_be_fallen_back_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "lower", None)
    assert run(lambda x: x + 1, fallback_execution=True).tolist() == [2.0, 2.0]
    assert compiler.get_dynamo_metrics()["fallbacks"] == 1


class OpaqueBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return opaque(gradient * 2)


def test_a_backward_that_fails_raises_where_it_is_compiled_and_the_model_still_runs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return OpaqueBackward.apply(x).sum()

    x = torch.ones(2, device="neuron", requires_grad=True)
    with pytest.raises(Exception, match="torchneuron_test::opaque"):
        torch.compile(function, backend="neuron", options={"partition": False})(x).backward()
    (failure,) = compiler.get_dynamo_metrics()["failures"]
    assert failure["kind"] == "backward"
    torch.compile(function, backend="neuron")(x).backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), torch.full((2,), 2.0).sinh())
