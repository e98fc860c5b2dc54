"""Checks that make calls in several forms, some of which must raise."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from results.vocabulary import Outcome
from suites.device import TestedDevice
from suites.opinfo.checks.base import Check
from suites.opinfo.judge import MESSAGE_CHARACTERS, Sample
from suites.opinfo.samples import Call
from suites.opinfo.subject import Subject
from suites.result import qualified_name


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Raised:
    """What the CPU raised, in place of a result."""

    error: Exception


class FormsCheck(Check):
    """Where the CPU raises, the device must raise an exception of that type.

    A ``NotImplementedError`` of the CPU is no such answer: what it lacks, a device may have. Such calls are
    left out.
    """

    def act(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """As :meth:`Check.invoke`, but what it raises on the CPU is the answer that a device must give."""
        raise NotImplementedError

    def invoke(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """The result, or on the CPU `Raised`."""
        if device is not None:
            return self.act(subject, call, device)
        try:
            return self.act(subject, call, None)
        except NotImplementedError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the CPU raises is what is expected
            return Raised(error)

    def judge(self, sample: Sample, subject: Subject, device: TestedDevice) -> None:
        """By the exception where the CPU raised, else by comparing."""
        if isinstance(sample.expected.value, Raised):
            judge_raised(sample, sample.expected.value.error, device)
        else:
            super().judge(sample, subject, device)
        if sample.message and sample.call.form:
            sample.message = f"{sample.call.form}: {sample.message}"


def judge_raised(sample: Sample, expected: Exception, device: TestedDevice) -> None:
    """Fill in the outcome of a call that the CPU refuses with an exception."""
    error, wanted = sample.error, qualified_name(expected)
    if error is None:
        sample.outcome = Outcome.FAILED_NUMERIC
        sample.message = f"raised nothing; the CPU raises {wanted}: {expected}"[:MESSAGE_CHARACTERS]
        return
    meant = device.classify(error)
    same = type(error) is type(expected)
    if not same and meant is not Outcome.FAILED_EXCEPTION:
        sample.outcome, sample.message = meant, str(error)[:MESSAGE_CHARACTERS]
    elif isinstance(error, type(expected)):
        # No longer an error: the report of a passed case must not show one.
        sample.outcome, sample.raised, sample.error = Outcome.PASSED, True, None
    else:
        sample.outcome = Outcome.FAILED_EXCEPTION
        said = f"raised {qualified_name(error)}: {error}; the CPU raises {wanted}: {expected}"
        sample.message = said[:MESSAGE_CHARACTERS]


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """All the memory behind a strided tensor, as a vector of its dtype that shares it."""
    storage = tensor.untyped_storage()
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return empty.set_(storage, 0, (storage.nbytes() // tensor.dtype.itemsize,), (1,))
