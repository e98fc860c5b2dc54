"""The check of tensors without dimensions."""

from __future__ import annotations

import pytest
import torch

from harness.devices.neuron import NeuronDevice
from results.vocabulary import Outcome
from suites.opinfo import run_case
from suites.opinfo.checks import CHECKS
from suites.opinfo.subject import subject_of
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_cases import case_of, on_itself


def test_the_cpu_agrees_with_itself():
    results = on_itself("zero_dim")
    assert sum(result.outcome is Outcome.PASSED for result in results) > 100


def notes(op):
    return {call.note for call in CHECKS["zero_dim"].calls(subject_of("op_db", op, "float32"))} - {None}


@pytest.mark.parametrize(
    ("op", "places"),
    [
        ("add", {0, 1}),
        ("atan2", {0, 1}),
        ("exp", set()),
        ("mm", set()),
        ("addcmul", set()),
        ("take", set()),
        ("inner", set()),
    ],
)
def test_only_element_wise_operators_of_two_tensors_are_mixed(op, places):
    assert notes(op) == places


def test_every_call_has_a_tensor_without_dimensions():
    calls = CHECKS["zero_dim"].calls(subject_of("op_db", "add", "float32"))
    assert all(any(not tensor.dim() for tensor in call.tensors()) for call in calls)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda right, x: right(x)[None] if not x.dim() else right(x), "shape is (1,), expected ()"),
        (lambda right, x: right(x).item() if not x.dim() else right(x), "is a float, expected a Tensor"),
        (lambda right, x: torch.zeros_like(x) if not x.dim() else right(x), "do not agree"),
    ],
)
def test_a_device_that_is_wrong_fails(on_device, wrong, said):
    result = run_case(on_device("exp", wrong, check="zero_dim"), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert said in result.message


def result_on_the_cpu(right, x, y, **kwargs):
    result = right(x, y, **kwargs)
    return result.cpu() if x.device != y.device else result


def refuses(right, x, y, **kwargs):
    if x.device != y.device:
        raise RuntimeError("tensors on two devices")
    return right(x, y, **kwargs)


@pytest.mark.parametrize(
    ("wrong", "outcome", "said"),
    [
        (result_on_the_cpu, Outcome.FAILED_NUMERIC, "is on cpu, expected on neuron"),
        (refuses, Outcome.FAILED_EXCEPTION, "argument 0: tensors on two devices"),
    ],
)
def test_a_device_that_does_not_mix_fails(on_device, wrong, outcome, said):
    result = run_case(on_device("mul", wrong, check="zero_dim"), NeuronDevice())
    assert result.outcome is outcome
    assert said in result.message


def test_calls_of_which_the_cpu_gives_nan_throughout_are_no_samples():
    result = run_case(case_of("corrcoef", check="zero_dim"), FakeDevice())
    assert (result.outcome, result.facts["category"]) == (Outcome.SKIPPED_UPSTREAM, "needs_samples")
    assert "NaN throughout" in result.message
