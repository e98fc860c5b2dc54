"""The check ``backward``: wrong, missing and invented gradients are seen."""

from __future__ import annotations

import pytest
import torch

from results.vocabulary import Category, Outcome
from suites.opinfo import Selection, run_case
from suites.opinfo.catalog import cases
from suites.opinfo.checks.derivatives import cotangents
from suites.opinfo.entries import operators
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_faults import case_of, operator_on_device


class Scaled(torch.autograd.Function):
    """The identity with a gradient that is too large."""

    @staticmethod
    def forward(ctx, value, factor):
        ctx.factor = factor
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


def run(op, dtype="float32"):
    return run_case(case_of(op, "backward", dtype), FakeDevice())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_cpu_agrees_with_itself(dtype):
    """A spread of op_db; no case fails, and few prove nothing."""
    found = [
        run_case(case, FakeDevice())
        for case in cases(Selection("test", tuple(sorted(operators())[::12])), (dtype,), ("backward",))
    ]
    expected = (Outcome.PASSED, Outcome.UNSUPPORTED, Outcome.SKIPPED_UPSTREAM)
    assert [result.message for result in found if result.outcome not in expected] == []
    assert sum(result.outcome is Outcome.PASSED for result in found) > 20


def test_a_pass_compared_the_gradients_of_all_arguments():
    result = run("addmm")
    assert result.outcome is Outcome.PASSED
    assert result.metrics["compared"] > 3 * result.metrics["samples"]


def test_no_dispatch_mode_chooses_the_formula():
    """``prod`` of one element has a second derivative, zero, but under a mode none at all."""
    device = FakeDevice()
    for check, paired in [("forward", True), ("backward", False), ("gradgrad", False), ("compile", False)]:
        run_case(case_of("prod", check), device)
        assert device.paired is paired


def test_a_wrong_gradient_fails_though_the_result_is_right(monkeypatch):
    operator_on_device(monkeypatch, "exp", lambda right, x: Scaled.apply(right(x), 1.01))
    assert run_case(case_of("exp", "forward"), FakeDevice()).outcome is Outcome.PASSED
    result = run("exp")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output.gradients[0]" in result.message


def test_a_missing_gradient_fails(monkeypatch):
    operator_on_device(monkeypatch, "mul", lambda right, x, y: right(x, y.detach()))
    result = run("mul")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output.gradients[1]: is a NoneType, expected a Tensor" in result.message


def test_a_gradient_where_the_cpu_has_none_fails(monkeypatch):
    operator_on_device(
        monkeypatch, "mul", lambda right, x, y: right(x, y), reference=lambda x, y: torch.mul(x, y.detach())
    )
    result = run("mul")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output.gradients[1]: is a Tensor, expected a NoneType" in result.message


def test_a_result_without_history_fails(monkeypatch):
    operator_on_device(monkeypatch, "exp", lambda right, x: right(x).detach())
    result = run("exp")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "differentiable_outputs: is 'none', expected '0'" in result.message


def test_what_backward_raises_is_the_device_s_answer(monkeypatch):
    class Refuses(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise NotImplementedError("no kernel for this derivative")

    operator_on_device(monkeypatch, "exp", lambda right, x: Refuses.apply(right(x)))
    result = run("exp")
    assert result.outcome is Outcome.UNSUPPORTED
    assert "no kernel for this derivative" in result.message


def test_the_gradient_in_float64_is_right_too(monkeypatch):
    """In two bytes the CPU's own may be far from the truth."""

    def poor_in_two_bytes(x):
        return Scaled.apply(torch.exp(x), 1.5 if x.dtype == torch.bfloat16 else 1.0)

    operator_on_device(monkeypatch, "exp", lambda right, x: right(x), reference=poor_in_two_bytes)
    assert run("exp", "bfloat16").outcome is Outcome.PASSED
    operator_on_device(monkeypatch, "exp", lambda right, x: Scaled.apply(right(x), 3.0))
    assert run("exp", "bfloat16").outcome is Outcome.FAILED_NUMERIC


@pytest.mark.parametrize(
    ("op", "dtype", "said"),
    [
        ("eq", "float32", "op_db lists no derivative for it"),
        ("add", "int64", "op_db lists no derivative in int64 for it"),
    ],
)
def test_what_has_no_derivative_is_skipped_with_the_reason(op, dtype, said):
    result = run(op, dtype)
    assert (result.outcome, result.message) == (Outcome.SKIPPED_UPSTREAM, said)
    assert result.facts["category"] == Category.OPINFO_ENTRY


def test_what_the_cpu_cannot_differentiate_is_skipped_with_what_it_says(monkeypatch):
    class Refuses(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise RuntimeError("derivative for aten::exp is not implemented")

    monkeypatch.setattr(operators()["exp"], "op", Refuses.apply)
    result = run("exp")
    assert result.outcome is Outcome.SKIPPED_UPSTREAM
    assert result.message.endswith("derivative for aten::exp is not implemented")
    assert result.facts["category"] == Category.REFERENCE_FAILED


def test_a_result_without_history_on_the_cpu_too_is_skipped(monkeypatch):
    monkeypatch.setattr(operators()["exp"], "op", lambda x: torch.exp(x).detach())
    result = run("exp")
    assert result.outcome is Outcome.SKIPPED_UPSTREAM
    assert result.facts["category"] == Category.NEEDS_SAMPLES


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64])
def test_cotangents_are_the_same_numbers_in_every_dtype(dtype):
    wide = torch.complex128 if dtype.is_complex else torch.float64
    (narrow,) = cotangents([torch.empty(5, 7, dtype=dtype)], 3)
    (exact,) = cotangents([torch.empty(5, 7, dtype=wide)], 3)
    assert narrow.dtype == dtype
    assert torch.equal(narrow.to(wide), exact)
    assert exact.count_nonzero() == 35
    assert not torch.equal(exact, cotangents([exact], 4)[0])
