"""The check of out=: every way in which a device can get it wrong is seen."""

from __future__ import annotations

import warnings

import pytest
import torch

from harness.devices.neuron import NeuronDevice
from results.vocabulary import Category, Outcome
from suites.opinfo import run_case
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_cases import case_of, on_itself


def test_the_cpu_agrees_with_itself():
    results = on_itself("out")
    assert sum(result.outcome is Outcome.PASSED for result in results) > 80


def ignores_out(right, *args, out, **kwargs):
    right(*args, out=out, **kwargs) if out.dtype != torch.float32 else None
    return out


def returns_another(right, *args, out, **kwargs):
    return right(*args, out=out, **kwargs).clone()


def does_not_resize(right, *args, out, **kwargs):
    plain = right(*args, **kwargs)
    if out.shape != plain.shape:
        return out
    return right(*args, out=out, **kwargs)


def resizes_in_silence(right, *args, out, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return right(*args, out=out, **kwargs)


def warns_of_empty(right, *args, out, **kwargs):
    if not out.numel():
        warnings.warn("it was resized", UserWarning, stacklevel=1)
    return right(*args, out=out, **kwargs)


def warns_in_another_category(right, *args, out, **kwargs):
    if out.numel() and out.shape != right(*args, **kwargs).shape:
        warnings.warn("it was resized", DeprecationWarning, stacklevel=1)
    return resizes_in_silence(right, *args, out=out, **kwargs)


def changes_strides(right, *args, out, **kwargs):
    right(*args, out=out, **kwargs)
    return out.set_(out.contiguous())


def writes_between(right, *args, out, **kwargs):
    right(*args, out=out, **kwargs)
    if not out.is_contiguous():
        torch.empty(0).set_(out.untyped_storage(), 1, (1,), (1,)).fill_(7)
    return out


def casts_in_silence(right, *args, out, **kwargs):
    if out.dtype == torch.int64:
        return out.copy_(right(*args, **kwargs))
    return right(*args, out=out, **kwargs)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (ignores_out, "out of the right shape: "),
        (returns_another, "returned out itself: is 'False', expected 'True'"),
        (does_not_resize, "shape is"),
        (
            resizes_in_silence,
            "out of another shape: output.warned of resizing: is '', expected 'UserWarning'",
        ),
        (warns_of_empty, "out without elements: output.warned of resizing: is 'UserWarning', expected ''"),
        (warns_in_another_category, "is 'DeprecationWarning', expected 'UserWarning'"),
        (changes_strides, "kept the strides of out: is 'False', expected 'True'"),
        (writes_between, "memory of out"),
        (casts_in_silence, "out of another dtype: raised nothing; the CPU raises RuntimeError"),
    ],
)
def test_a_device_that_is_wrong_fails(on_device, wrong, said):
    result = run_case(on_device("exp", wrong, check="out"), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert said in result.message


def test_the_other_type_of_exception_fails(on_device):
    def raises_another(right, *args, out, **kwargs):
        if out.dtype == torch.int64:
            raise ValueError("no such cast")
        return right(*args, out=out, **kwargs)

    result = run_case(on_device("exp", raises_another, check="out"), FakeDevice())
    assert result.outcome is Outcome.FAILED_EXCEPTION
    assert "raised ValueError: no such cast; the CPU raises RuntimeError" in result.message


def test_every_tensor_of_a_tuple_counts(on_device):
    def second_is_ignored(right, *args, out, **kwargs):
        right(*args, out=(out[0], torch.empty_like(out[1])), **kwargs)
        return out

    case = on_device("max.reduction_with_dim", second_is_ignored, check="out")
    assert run_case(case, FakeDevice()).outcome is Outcome.FAILED_NUMERIC
    assert run_case(case_of("sort", check="out"), FakeDevice()).outcome is Outcome.PASSED


def test_an_out_on_the_cpu_must_be_refused_by_another_device(on_device):
    def takes_it(right, *args, out, **kwargs):
        return (
            out.copy_(right(*args, **kwargs)) if out.device.type == "cpu" else right(*args, out=out, **kwargs)
        )

    device = NeuronDevice()
    assert run_case(case_of("exp", check="out"), device).outcome is Outcome.PASSED
    result = run_case(on_device("exp", takes_it, check="out"), device)
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "out on the CPU: raised nothing" in result.message


def test_a_device_need_not_change_strides_as_the_cpu_does():
    """linalg.eig of the CPU gives its out the strides that LAPACK wants, that of the device keeps them."""
    for device in (FakeDevice(), NeuronDevice()):
        result = run_case(case_of("linalg.eig", check="out"), device)
        assert (result.outcome, result.message) == (Outcome.PASSED, "")


def test_what_takes_no_out_says_so():
    result = run_case(case_of("nn.functional.relu", check="out"), FakeDevice())
    assert result.outcome is Outcome.SKIPPED_UPSTREAM
    assert result.facts["category"] == Category.OPINFO_ENTRY
    assert result.message == "it has no form with out="


@pytest.mark.parametrize("op", ["linspace", "eye", "empty"])
def test_an_out_that_float64_does_not_fit_is_judged_by_the_dtype_s_own_reference(op):
    """Some of its samples have no elements, and so prove nothing by themselves."""
    assert run_case(case_of(op, check="out"), FakeDevice()).passed
