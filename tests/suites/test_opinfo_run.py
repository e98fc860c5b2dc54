"""Running operator cases: every outcome can be seen to happen."""

from __future__ import annotations

import types
from collections import Counter

import pytest
import torch

from results.vocabulary import Outcome
from suites.opinfo import load_selection, run_case
from suites.opinfo.catalog import cases
from suites.opinfo.entries import OP_DB, OpEntry, entries, operators
from suites.opinfo.subject import subject_of
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_cases import case_of


def test_the_cpu_agrees_with_itself_over_the_whole_first_slice():
    """One dtype here; the nightly runs all. Not one case may fail for a fault of the suite."""
    found = {case.id: run_case(case, FakeDevice()) for case in cases(load_selection(), ("float32",))}
    bad = {
        name: r.message for name, r in found.items() if r.outcome not in (Outcome.PASSED, Outcome.UNSUPPORTED)
    }
    assert bad == {}
    counts = Counter(result.outcome for result in found.values())
    assert counts[Outcome.PASSED] >= 250
    assert all(r.metrics["samples"] >= 1 for r in found.values() if r.outcome is Outcome.PASSED)


def test_a_pass_carries_its_measurements():
    result = run_case(case_of("nn.functional.relu"), FakeDevice())
    assert result.outcome is Outcome.PASSED
    assert result.metrics["samples"] > 1
    assert result.metrics["compared"] > result.metrics["samples"]
    assert result.metrics["max_abs_error"] == 0
    assert result.calls
    assert result.seconds > 0
    assert result.message == ""


def test_wrong_numbers_fail_and_name_the_worst_element(on_device):
    case = on_device("mul", lambda right, *args, **kwargs: right(*args, **kwargs) + 0.5)
    result = run_case(case, FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "worst" in result.message
    assert "off by 0.5" in result.message
    assert result.metrics["max_abs_error"] == pytest.approx(0.5, rel=1e-4)


def test_one_wrong_sample_is_enough_and_is_counted(on_device):
    calls = iter(range(1000))

    def third_is_wrong(right, *args, **kwargs):
        return right(*args, **kwargs) + (1 if next(calls) == 2 else 0)

    result = run_case(on_device("add", third_is_wrong), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert result.message.startswith(f"1 of {int(result.metrics['samples'])} samples, first #2: ")


@pytest.mark.parametrize(
    ("error", "outcome", "name"),
    [
        (RuntimeError("boom"), Outcome.FAILED_EXCEPTION, "RuntimeError"),
        (NotImplementedError("no kernel"), Outcome.UNSUPPORTED, "NotImplementedError"),
        (MemoryError("full"), Outcome.OUT_OF_MEMORY, "MemoryError"),
    ],
)
def test_what_the_device_raises_is_classified_by_the_device(on_device, error, outcome, name):
    def raises(right, *args, **kwargs):
        raise error

    result = run_case(on_device("abs", raises), FakeDevice())
    assert (result.outcome, result.exception) == (outcome, name)
    assert str(error) in result.message
    assert name in result.traceback


def test_wrong_numbers_weigh_more_than_an_error(on_device):
    calls = iter(range(1000))

    def first_raises_then_wrong(right, *args, **kwargs):
        if next(calls) == 0:
            raise RuntimeError("boom")
        return right(*args, **kwargs) * 2 + 1

    result = run_case(on_device("add", first_raises_then_wrong), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "failed_exception: 1" in result.facts["outcomes"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda right, x: right(x).double(), "dtype is float64, expected float32"),
        (lambda right, x: right(x)[None], "shape is"),
        (lambda right, x: right(x).to("meta"), "is on meta, expected on cpu"),
        (lambda right, x: [right(x)], "is a list, expected a Tensor"),
    ],
)
def test_metadata_that_is_wrong_fails(on_device, wrong, said):
    result = run_case(on_device("exp", wrong), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert said in result.message


def test_an_error_that_surfaces_late_belongs_to_the_sample_that_caused_it():
    device = FakeDevice()
    waits = iter(range(1000))

    def synchronize():
        if device.recordings and next(waits) == 0:
            raise RuntimeError("late")

    device.synchronize = synchronize
    result = run_case(case_of("add"), device)
    assert result.outcome is Outcome.FAILED_EXCEPTION
    assert result.facts["outcomes"].startswith("failed_exception: 1, passed: ")


def test_what_an_operator_writes_into_its_arguments_is_compared(on_device):
    """batch_norm's running statistics are written, not returned."""

    def forgets_statistics(right, *args, **kwargs):
        copies = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
        return right(*copies, **kwargs)

    result = run_case(on_device("nn.functional.batch_norm", forgets_statistics), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "written into" in result.message


def test_a_pair_that_op_db_does_not_list_is_unsupported_and_not_run():
    device = FakeDevice()
    result = run_case(case_of("nn.functional.gelu", "int64"), device)
    assert (result.outcome, result.message) == (
        Outcome.UNSUPPORTED,
        "op_db lists no int64 for this operator",
    )
    assert device.recordings == 0


def test_no_op_call_on_the_device_proves_nothing():
    result = run_case(case_of("add"), FakeDevice(calls=()))
    assert (result.outcome, result.message) == (Outcome.VACUOUS, "no op call was recorded on the device")


def test_what_calls_no_op_on_the_cpu_either_is_no_test_of_a_device():
    for op in ("positive", "broadcast_shapes", "conj"):
        result = run_case(case_of(op), FakeDevice(calls=()))
        assert (result.outcome, result.facts["category"]) == (Outcome.SKIPPED_UPSTREAM, "opinfo_entry"), op
        assert "calls no op on any device" in result.message


def test_nan_throughout_proves_nothing(monkeypatch):
    monkeypatch.setattr(operators()["sin"], "op", lambda x: torch.full_like(x, torch.nan))
    result = run_case(case_of("sin"), FakeDevice())
    assert (result.outcome, result.facts["category"]) == (Outcome.SKIPPED_UPSTREAM, "reference_failed")
    assert "NaN throughout" in result.message


def narrow_and_wide(narrow, wide):
    """An operator that gives one thing in float64 and another in narrower dtypes."""
    return lambda x: torch.full_like(x, wide if x.dtype is torch.float64 else narrow)


@pytest.mark.parametrize(("given", "passes"), [(2.9, True), (4.0, True), (4.1, False), (torch.nan, False)])
def test_a_device_may_be_twice_as_far_from_float64_as_the_cpu_is(on_device, monkeypatch, given, passes):
    monkeypatch.setattr(operators()["sin"], "op", narrow_and_wide(narrow=1.0, wide=2.0))
    result = run_case(on_device("sin", lambda _, x: torch.full_like(x, given)), FakeDevice())
    assert result.passed is passes


def test_where_the_cpu_gives_nan_float64_may_say_that_a_device_is_right(on_device, monkeypatch):
    monkeypatch.setattr(operators()["sin"], "op", narrow_and_wide(narrow=torch.nan, wide=2.0))
    assert run_case(on_device("sin", lambda _, x: torch.full_like(x, 2.0)), FakeDevice()).passed
    wrong = run_case(on_device("sin", lambda _, x: torch.full_like(x, 3.0)), FakeDevice())
    assert wrong.outcome is Outcome.FAILED_NUMERIC
    same = run_case(on_device("sin", lambda _, x: torch.full_like(x, torch.nan)), FakeDevice())
    assert (same.outcome, same.facts["category"]) == (Outcome.SKIPPED_UPSTREAM, "reference_failed")


def test_an_operator_without_tensors_has_no_memory_with_gaps():
    result = run_case(case_of("arange", check="noncontiguous"), FakeDevice())
    assert (result.outcome, result.facts["category"]) == (Outcome.SKIPPED_UPSTREAM, "needs_samples")


def test_uninitialised_memory_has_no_determinism():
    case = case_of("empty", check="determinism")
    assert case.spec["skipped"] == "it returns uninitialised memory"
    result = run_case(case, FakeDevice())
    assert (result.outcome, result.facts["category"]) == (Outcome.SKIPPED_UPSTREAM, "opinfo_entry")


def raising(*_args, **_kwargs):
    raise RuntimeError("the reference is broken")


def test_samples_the_cpu_raises_on_are_left_out_and_counted(monkeypatch):
    info, right, calls = operators()["cos"], operators()["cos"].op, iter(range(1000))
    monkeypatch.setattr(info, "op", lambda x: raising() if next(calls) == 0 else right(x))
    result = run_case(case_of("cos"), FakeDevice())
    assert result.outcome is Outcome.PASSED
    assert result.metrics["samples_left_out"] == 1
    assert "left_out" in result.facts

    monkeypatch.setattr(info, "op", raising)
    result = run_case(case_of("cos"), FakeDevice())
    assert (result.outcome, result.facts["category"]) == (Outcome.SKIPPED_UPSTREAM, "reference_failed")
    assert "the CPU raised on all of" in result.message


def test_a_generator_of_samples_that_fails_is_not_the_device_s_fault(monkeypatch):
    case, broken = case_of("abs"), types.SimpleNamespace(op=torch.abs, sample_inputs_func=raising)
    monkeypatch.setitem(entries(OP_DB), "abs", OpEntry(OP_DB, "abs", broken))
    subject_of.cache_clear()
    result = run_case(case, FakeDevice())
    assert (result.outcome, result.facts["category"]) == (Outcome.SKIPPED_UPSTREAM, "reference_failed")
    assert "the reference is broken" in result.message


def test_random_operators_are_compared_without_values_and_say_so(on_device):
    def other_numbers(right, *args, **kwargs):
        return torch.zeros_like(right(*args, **kwargs))

    result = run_case(on_device("nn.functional.dropout", other_numbers), FakeDevice())
    assert result.outcome is Outcome.PASSED
    assert "random" in result.facts["values"]
    assert result.metrics["compared"] == 0


def test_two_runs_of_a_case_are_the_same():
    one, two = (run_case(case_of("matmul"), FakeDevice()) for _ in range(2))
    assert one.metrics == two.metrics
