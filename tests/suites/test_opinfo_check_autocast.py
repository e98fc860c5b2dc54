"""The check of autocast, on the simulated device, whose lists are CUDA's."""

from __future__ import annotations

import pytest
import torch

from harness.devices.neuron import NeuronDevice
from results.vocabulary import Category, Outcome
from suites.opinfo import run_case
from suites.opinfo.checks import CHECKS, as_cuda
from suites.opinfo.samples import map_tensors
from suites.opinfo.subject import subject_of
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_cases import case_of

LISTED = [  # a few of each of the lists in https://docs.pytorch.org/docs/stable/amp.html
    ("mm", "bfloat16"),
    ("nn.functional.linear", "bfloat16"),
    ("nn.functional.conv2d", "bfloat16"),
    ("exp", "float32"),
    ("softmax", "float32"),
    ("nn.functional.layer_norm", "float32"),
    ("cumsum", "float32"),
    ("nn.functional.cosine_similarity", "float32"),
]


@pytest.mark.parametrize(("op", "dtype"), LISTED)
def test_the_reference_casts_as_the_documented_lists_say(op, dtype):
    """Whatever the arguments' dtypes are."""
    check, subject = CHECKS["autocast"], subject_of("op_db", op, "float32")
    calls = [call for call in check.calls(subject) if call.note == torch.bfloat16]
    results = [check.invoke(subject, map_tensors(torch.clone, call), None) for call in calls]
    assert {str(result.dtype) for result in results if result.is_floating_point()} == {f"torch.{dtype}"}


def test_the_reference_leaves_autocast_as_it_was():
    with as_cuda.autocast(torch.float16):
        assert torch.is_autocast_enabled("cuda")
    assert not torch.is_autocast_enabled("cuda")
    assert torch.get_autocast_dtype("cuda") == torch.float16  # the default


@pytest.mark.parametrize(
    "op", ["mm", "exp", "softmax", "addcmul", "nn.functional.linear", "nn.functional.mse_loss", "relu", "sum"]
)
def test_the_simulated_device_passes(op):
    name = "nn.functional.relu" if op == "relu" else op
    result = run_case(case_of(name, check="autocast"), NeuronDevice())
    assert (result.outcome, result.message) == (Outcome.PASSED, "")


def without_autocast(right, *args, **kwargs):
    with torch.autocast("neuron", enabled=False):
        return right(*args, **kwargs)


def lowers_all(right, *args, **kwargs):
    def lower(value):
        return value.bfloat16() if isinstance(value, torch.Tensor) else value

    with torch.autocast("neuron", enabled=False):
        return right(*map(lower, args), **{name: lower(value) for name, value in kwargs.items()})


@pytest.mark.parametrize(
    ("op", "wrong", "said"),
    [
        ("mv", without_autocast, "dtype is float32, expected bfloat16"),
        ("exp", without_autocast, "bfloat16 arguments: output: dtype is bfloat16, expected float32"),
        ("exp", lowers_all, "dtype is bfloat16, expected float32"),
        ("mv", lambda right, *args, **kwargs: right(*args, **kwargs) * 1.1, "do not agree"),
        # In float32, but with the accuracy of two bytes.
        ("exp", lambda right, x: right(x).bfloat16().float(), "do not agree"),
    ],
)
def test_a_device_that_is_wrong_fails(on_device, op, wrong, said):
    result = run_case(on_device(op, wrong, check="autocast"), NeuronDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert said in result.message


def test_what_autocast_refuses_must_be_refused(on_device):
    op = "nn.functional.binary_cross_entropy"
    assert run_case(case_of(op, check="autocast"), NeuronDevice()).outcome is Outcome.PASSED
    result = run_case(on_device(op, without_autocast, check="autocast"), NeuronDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "raised nothing; the CPU raises RuntimeError" in result.message


@pytest.mark.parametrize(
    ("device", "said"),
    [("cpu", "the CPU's autocast has lists of its own"), ("meta", "device meta has no autocast")],
)
def test_a_device_without_such_autocast_is_unsupported(device, said, monkeypatch):
    monkeypatch.setattr("suites.opinfo.trial.seed_everything", lambda *_: None)  # meta has no generator
    result = run_case(case_of("mm", check="autocast"), FakeDevice(device))
    assert result.outcome is Outcome.UNSUPPORTED
    assert said in result.message


def test_a_dtype_that_the_device_does_not_cast_to_is_unsupported(monkeypatch):
    monkeypatch.setattr(torch.neuron, "get_amp_supported_dtype", lambda: [torch.float32])
    result = run_case(case_of("mm", check="autocast"), NeuronDevice())
    assert result.outcome is Outcome.UNSUPPORTED
    assert "does not cast to bfloat16" in result.message


def test_other_dtypes_say_why_they_are_not_run():
    result = run_case(case_of("mm", "int64", "autocast"), NeuronDevice())
    assert result.outcome is Outcome.SKIPPED_UPSTREAM
    assert result.facts["category"] == Category.OPINFO_ENTRY
