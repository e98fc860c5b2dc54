"""The check ``noncontiguous``: right is what the CPU gives, with the gaps or without."""

from __future__ import annotations

import torch

from results.vocabulary import Outcome
from suites.opinfo import run_case
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_faults import case_of, operator_on_device


def reads_the_gaps(x):
    """What a kernel gives that takes elements to lie side by side."""
    return torch.exp(torch.as_strided(x, x.shape, torch.empty(x.shape).stride()))


def run(op):
    return run_case(case_of(op, "noncontiguous"), FakeDevice())


def test_a_device_that_reads_the_gaps_fails(monkeypatch):
    operator_on_device(monkeypatch, "exp", lambda right, x: reads_the_gaps(x))
    assert run_case(case_of("exp", "forward"), FakeDevice()).outcome is Outcome.PASSED
    assert run("exp").outcome is Outcome.FAILED_NUMERIC


def test_a_device_that_is_right_passes_though_the_cpu_reads_the_gaps(monkeypatch):
    """As the CPU's fused optimizers do, and its ``ctc_loss``."""
    operator_on_device(monkeypatch, "exp", lambda right, x: torch.exp(x), reference=reads_the_gaps)
    assert run("exp").outcome is Outcome.PASSED


def test_what_is_written_between_gaps_is_compared(monkeypatch):
    def forgets_statistics(right, *args, **kwargs):
        copies = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
        return right(*copies, **kwargs)

    assert run("nn.functional.batch_norm").outcome is Outcome.PASSED
    operator_on_device(monkeypatch, "nn.functional.batch_norm", forgets_statistics)
    result = run("nn.functional.batch_norm")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "written into" in result.message
