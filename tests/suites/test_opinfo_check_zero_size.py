"""The check of tensors without elements."""

from __future__ import annotations

import pytest
import torch

from results.vocabulary import Category, Outcome
from suites.opinfo import run_case
from suites.opinfo.checks import CHECKS
from suites.opinfo.subject import subject_of
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_cases import case_of, on_itself


def test_the_cpu_agrees_with_itself():
    results = on_itself("zero_size")
    assert sum(result.outcome is Outcome.PASSED for result in results) > 100


@pytest.mark.parametrize("op", ["mm", "add", "cat", "nn.functional.linear"])
def test_every_call_has_a_tensor_without_elements(op):
    calls = CHECKS["zero_size"].calls(subject_of("op_db", op, "float32"))
    assert calls
    assert all(any(not tensor.numel() for tensor in call.tensors()) for call in calls)


def raises(right, *args, **kwargs):
    raise RuntimeError("empty")


@pytest.mark.parametrize(
    ("op", "wrong", "outcome", "said"),
    [
        ("exp", lambda right, x: right(x).flatten(), Outcome.FAILED_NUMERIC, "shape is"),
        ("exp", lambda right, x: right(x).double(), Outcome.FAILED_NUMERIC, "dtype is float64"),
        ("exp", raises, Outcome.FAILED_EXCEPTION, "empty"),
        ("mean", lambda right, *a, **k: right(*a, **k).nan_to_num(), Outcome.FAILED_NUMERIC, "expected nan"),
        ("sum", lambda right, *a, **k: right(*a, **k) + 1, Outcome.FAILED_NUMERIC, "expected 0.0"),
    ],
)
def test_a_device_that_is_wrong_fails(on_device, op, wrong, outcome, said):
    result = run_case(on_device(op, wrong, check="zero_size"), FakeDevice())
    assert result.outcome is outcome
    assert said in result.message


def test_empty_results_prove_something_here(on_device):
    result = run_case(on_device("exp", lambda right, x: torch.empty_like(x), check="zero_size"), FakeDevice())
    assert result.outcome is Outcome.PASSED


def test_an_operator_without_such_calls_says_so():
    result = run_case(case_of("linspace", check="zero_size"), FakeDevice())
    assert result.outcome is Outcome.SKIPPED_UPSTREAM
    assert result.facts["category"] == Category.NEEDS_SAMPLES
