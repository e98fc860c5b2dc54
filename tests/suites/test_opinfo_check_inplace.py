"""The check of in-place forms: every way in which a device can get them wrong is seen."""

from __future__ import annotations

import pytest
import torch

from results.vocabulary import Category, Outcome
from suites.opinfo import run_case
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_cases import case_of, on_itself


def test_the_cpu_agrees_with_itself():
    results = on_itself("inplace")
    assert sum(result.outcome is Outcome.PASSED for result in results) > 50


def returns_a_copy(right, tensor, *args, **kwargs):
    return right(tensor, *args, **kwargs).clone()


def writes_into_a_copy(right, tensor, *args, **kwargs):
    right(tensor.clone(), *args, **kwargs)
    return tensor


def takes_other_memory(right, tensor, *args, **kwargs):
    return tensor.set_(right(tensor.clone(), *args, **kwargs))


def writes_between(right, tensor, *args, **kwargs):
    right(tensor, *args, **kwargs)
    if not tensor.is_contiguous():
        tensor.new_empty(0).set_(tensor.untyped_storage(), 1, (1,), (1,)).fill_(7)
    return tensor


def casts_in_silence(right, tensor, *args, **kwargs):
    if tensor.dtype == torch.int64:
        return tensor.copy_(right(tensor.double(), *args, **kwargs))
    return right(tensor, *args, **kwargs)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (returns_a_copy, "returned the argument itself: is 'False', expected 'True'"),
        (writes_into_a_copy, "do not agree"),
        (takes_other_memory, "output.memory"),
        (writes_between, "into memory with gaps: output.memory"),
        (casts_in_silence, "into torch.int64: raised nothing; the CPU raises RuntimeError"),
    ],
)
def test_a_device_that_is_wrong_fails(on_device, wrong, said):
    case = on_device("exp", wrong, check="inplace", which="inplace_variant")
    result = run_case(case, FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert said in result.message


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(TypeError("no"), Outcome.FAILED_EXCEPTION), (NotImplementedError("not yet"), Outcome.UNSUPPORTED)],
)
def test_another_exception_than_the_cpu_s(on_device, error, outcome):
    def raises(right, tensor, *args, **kwargs):
        if tensor.dtype == torch.int64:
            raise error
        return right(tensor, *args, **kwargs)

    result = run_case(on_device("exp", raises, check="inplace", which="inplace_variant"), FakeDevice())
    assert result.outcome is outcome
    assert str(error) in result.message


def test_refusing_what_the_cpu_refuses_needs_no_call_on_the_device():
    """exp_ of integers is an error throughout."""
    result = run_case(case_of("exp", "int64", "inplace"), FakeDevice(calls=()))
    assert (result.outcome, result.exception) == (Outcome.PASSED, "")
    floats = run_case(case_of("exp", check="inplace"), FakeDevice(calls=()))
    assert floats.outcome is Outcome.VACUOUS


def test_what_has_no_such_form_says_so():
    result = run_case(case_of("cat", check="inplace"), FakeDevice())
    assert result.outcome is Outcome.SKIPPED_UPSTREAM
    assert result.facts["category"] == Category.OPINFO_ENTRY
