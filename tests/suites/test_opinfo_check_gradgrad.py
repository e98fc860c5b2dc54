"""The check ``gradgrad``: second derivatives that are wrong or missing are seen, first ones being right."""

from __future__ import annotations

import pytest
import torch

from results.vocabulary import Outcome
from suites.opinfo import Selection, run_case
from suites.opinfo.catalog import cases
from suites.opinfo.entries import operators
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_faults import case_of, operator_on_device


class Square(torch.autograd.Function):
    """With a right first derivative and a second one that is too large, or missing."""

    factor = 1.0

    @staticmethod
    def forward(ctx, value):
        ctx.save_for_backward(value)
        return value * value

    @staticmethod
    def backward(ctx, gradient):
        (value,) = ctx.saved_tensors
        fixed = value.detach()
        # The value is 2 * gradient * value whatever the factor; the history is not.
        return 2 * gradient * (fixed + Square.factor * (value - fixed))


def run(op, dtype="float32"):
    return run_case(case_of(op, "gradgrad", dtype), FakeDevice())


def test_the_cpu_agrees_with_itself():
    """A spread of op_db; no case fails, and few prove nothing."""
    found = [
        run_case(case, FakeDevice())
        for case in cases(Selection("test", tuple(sorted(operators())[::12])), ("float32",), ("gradgrad",))
    ]
    expected = (Outcome.PASSED, Outcome.UNSUPPORTED, Outcome.SKIPPED_UPSTREAM)
    assert [result.message for result in found if result.outcome not in expected] == []
    assert sum(result.outcome is Outcome.PASSED for result in found) > 20


def test_a_wrong_second_derivative_fails_though_the_first_is_right(monkeypatch):
    operator_on_device(monkeypatch, "square", lambda right, x: Square.apply(x))
    for factor, outcome in [(1.0, Outcome.PASSED), (1.5, Outcome.FAILED_NUMERIC)]:
        monkeypatch.setattr(Square, "factor", factor)
        assert run_case(case_of("square", "backward"), FakeDevice()).outcome is Outcome.PASSED
        result = run("square")
        assert result.outcome is outcome
        assert ("output.second[0]" in result.message) == (factor != 1.0)


def test_a_gradient_without_history_fails(monkeypatch):
    """The second derivative by the argument is missing, the one by the cotangent is right."""

    class Constant(Square):
        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient * ctx.saved_tensors[0].detach()

    operator_on_device(monkeypatch, "square", lambda right, x: Constant.apply(x))
    result = run("square")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output.second[0]: is a NoneType, expected a Tensor" in result.message


def test_derivatives_by_the_first_cotangents_are_compared(monkeypatch):
    """``exp`` of a linear operator: its first gradient does not depend on the argument at all."""
    result = run("neg")
    assert result.outcome is Outcome.PASSED
    assert result.metrics["compared"] > 0


def test_what_has_no_second_derivative_is_skipped_with_the_reason():
    once = next(name for name, info in sorted(operators().items()) if _only_once(info))
    result = run(once)
    assert result.outcome is Outcome.SKIPPED_UPSTREAM
    assert result.message == "op_db lists no second derivative for it"


def _only_once(info):
    return (
        info.supports_autograd
        and not info.supports_gradgrad
        and torch.float32 in info.supported_backward_dtypes("cpu")
    )


def test_attention_is_differentiated_twice():
    """Its fused kernels have no second derivative."""
    result = run_case(case_of("nn.TransformerEncoderLayer", "gradgrad", database="module_db"), FakeDevice())
    assert result.outcome is Outcome.PASSED
    assert result.metrics["samples_left_out"] == 0


def noisy(noise):
    """``square`` with a second derivative that is off by so much where rounding can be its reason."""

    def square(x):
        factor = 1.0 if x.dtype == torch.float64 else 1.0 + noise
        return x * x * x.detach().pow(0) + (factor - 1) * (x - x.detach()).square()

    return square


@pytest.mark.parametrize(
    ("of_cpu", "of_device", "outcome"),
    [
        (0.01, -0.01, Outcome.PASSED),
        (0.01, -0.05, Outcome.FAILED_NUMERIC),
        (0.0, -0.01, Outcome.FAILED_NUMERIC),
    ],
)
def test_no_more_is_asked_than_twice_what_the_cpu_itself_keeps(monkeypatch, of_cpu, of_device, outcome):
    wrong = noisy(of_device)
    operator_on_device(monkeypatch, "square", lambda right, x: wrong(x), reference=noisy(of_cpu))
    assert run("square").outcome is outcome
