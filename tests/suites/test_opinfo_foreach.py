"""The ``foreach`` lists: calls for lists of tensors."""

from __future__ import annotations

import pytest
import torch

from results.vocabulary import Outcome
from suites.opinfo import run_case
from suites.opinfo.catalog import cases
from suites.opinfo.entries import entries
from suites.opinfo.samples import seed_everything
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_faults import case_of, other_on_device

FOREACH = "foreach"


def run(name, check="forward", dtype="float32"):
    return run_case(case_of(name, check, dtype, FOREACH), FakeDevice())


@pytest.mark.parametrize("check", ["forward", "backward", "gradgrad", "noncontiguous", "determinism"])
def test_the_cpu_agrees_with_itself(check):
    found = {
        case.id: run_case(case, FakeDevice())
        for case in cases(None, ("float32", "int64"), (check,), (FOREACH,))[::7]
    }
    expected = (Outcome.PASSED, Outcome.UNSUPPORTED, Outcome.SKIPPED_UPSTREAM)
    assert {name: r.message for name, r in found.items() if r.outcome not in expected} == {}
    assert sum(result.outcome is Outcome.PASSED for result in found.values()) >= 5


def test_one_wrong_tensor_of_a_list_fails(monkeypatch):
    def last_is_wrong(right, tensors, *args, **kwargs):
        *first, last = right(tensors, *args, **kwargs)
        return (*first, last + 1)

    other_on_device(monkeypatch, entries(FOREACH)["_foreach_add"].info, "op", last_is_wrong)
    result = run("_foreach_add")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output[" in result.message


def test_a_missing_tensor_of_a_list_fails(monkeypatch):
    other_on_device(
        monkeypatch, entries(FOREACH)["_foreach_exp"].info, "op", lambda right, tensors: right(tensors)[:-1]
    )
    result = run("_foreach_exp")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "a tuple of" in result.message


def test_what_is_written_in_place_is_compared(monkeypatch):
    """``_foreach_zero`` has no other form, and returns nothing to compare."""

    def forgets_the_last(right, tensors):
        return right(tensors[:-1])

    other_on_device(monkeypatch, entries(FOREACH)["_foreach_zero"].info, "op", forgets_the_last)
    result = run("_foreach_zero")
    assert result.outcome is Outcome.FAILED_NUMERIC


def test_gradients_of_lists_are_compared(monkeypatch):
    def first_without_history(right, tensors):
        return right([tensors[0].detach(), *tensors[1:]])

    other_on_device(monkeypatch, entries(FOREACH)["_foreach_exp"].info, "op", first_without_history)
    result = run("_foreach_exp", "backward")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output.gradients[0]: is a NoneType, expected a Tensor" in result.message


def test_an_entry_has_its_form_in_place():
    entry = entries(FOREACH)["_foreach_add"]
    seed_everything(0)
    call = next(iter(entry.samples(torch.float32, False)))
    before = [tensor.clone() for tensor in call.args[0]]
    expected = entry.run(call)
    entry.in_place(*call.args, **call.kwargs)
    assert all(torch.equal(one, two) for one, two in zip(call.args[0], expected, strict=True))
    assert not all(torch.equal(one, two) for one, two in zip(call.args[0], before, strict=True))


def test_dtypes_are_those_of_the_operator_for_one_tensor():
    """The lists themselves name every dtype for every operator."""
    assert torch.int64 not in entries(FOREACH)["_foreach_lerp"].dtypes
    assert torch.int64 in entries(FOREACH)["_foreach_add"].dtypes
    assert all(entry.dtypes for entry in entries(FOREACH).values())


def test_all_lists_are_in_it():
    assert {"_foreach_exp", "_foreach_add", "_foreach_addcmul", "_foreach_norm", "_foreach_lerp"} <= set(
        entries(FOREACH)
    )
    assert len(entries(FOREACH)) >= 48
