"""The checks of the functional form: awkward memory, repetition, and which reference is believed."""

from __future__ import annotations

import pytest
import torch

from results.vocabulary import Outcome
from suites.opinfo import run_case
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_cases import on_itself


@pytest.mark.parametrize("check", ["noncontiguous", "determinism"])
def test_the_cpu_agrees_with_itself(check):
    results = on_itself(check, ("float32", "int64"))
    assert sum(result.outcome is Outcome.PASSED for result in results) > 50


def test_a_device_that_ignores_strides_fails_only_with_gaps(on_device):
    def ignores_strides(right, x):
        memory = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
        return right(memory[: x.numel()].view(x.shape))

    assert run_case(on_device("exp", ignores_strides), FakeDevice()).outcome is Outcome.PASSED
    result = run_case(on_device("exp", ignores_strides, check="noncontiguous"), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "do not agree" in result.message


def test_a_device_that_differs_between_runs_fails(on_device):
    calls = iter(range(1000))

    def third_run_is_off_by_one_bit(right, x):
        result = right(x)
        return torch.nextafter(result, result + 1) if next(calls) % 3 == 2 else result

    result = run_case(on_device("exp", third_run_is_off_by_one_bit, check="determinism"), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "run 3" in result.message


def test_a_random_operator_that_ignores_its_seed_fails(on_device):
    def unseeded(right, *args, **kwargs):
        state = torch.get_rng_state()
        torch.seed()
        try:
            return torch.rand_like(args[0])
        finally:
            torch.set_rng_state(state)

    result = run_case(on_device("nn.functional.dropout", unseeded, check="determinism"), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC


@pytest.fixture
def poor_reference(monkeypatch):
    """A CPU that is off by a tenth in bfloat16, and right in float64."""
    from suites.opinfo.entries import operators

    info, right = operators()["exp"], operators()["exp"].op
    monkeypatch.setattr(info, "op", lambda x: right(x) * 1.1 if x.dtype == torch.bfloat16 else right(x))


def truth(right, x):
    return torch.exp(x.double()).to(x.dtype)


@pytest.mark.parametrize(
    ("device_gives", "outcome"),
    [
        (truth, Outcome.PASSED),
        (lambda right, x: right(x), Outcome.PASSED),  # as the CPU in the same dtype
        (lambda right, x: truth(right, x) * 1.3, Outcome.FAILED_NUMERIC),
    ],
)
def test_right_is_what_agrees_with_either_reference(poor_reference, on_device, device_gives, outcome):
    result = run_case(on_device("exp", device_gives, "bfloat16"), FakeDevice())
    assert result.outcome is outcome


def test_float64_excuses_no_float64(on_device):
    result = run_case(on_device("exp", lambda right, x: right(x) * 1.1, "float64"), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
