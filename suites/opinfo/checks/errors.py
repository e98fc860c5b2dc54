"""The check of error inputs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import torch

from results.vocabulary import Outcome
from suites.device import TestedDevice
from suites.opinfo.checks.forms import FormsCheck, Raised, judge_raised
from suites.opinfo.entries import Entry
from suites.opinfo.judge import MESSAGE_CHARACTERS, Sample
from suites.opinfo.samples import Call, call_of, seed_everything
from suites.opinfo.subject import Subject
from suites.values import dtype_name

_PREFERRED = (torch.float32, torch.int64)


class Errors(FormsCheck):
    """Calls that must be refused.

    The message has to match the list's pattern, which is what upstream asks of every device, whether its own
    kernel refuses or the CPU's after a fallback. Word for word it need not be the CPU's, as CUDA's are not
    either. How many are, but for the device's name, is counted.
    """

    name = "errors"
    meaning = (
        "Calls that the list says are wrong raise the CPU's type of exception, with a message that matches "
        "the list's pattern for it; how many say the CPU's words is counted, not asked."
    )
    most = 40
    derived = True
    calls_prove = False  # most are refused before any kernel is called

    def lacks(self, entry: Entry, dtype: torch.dtype) -> str:
        """The inputs have dtypes of their own, so one case of an entry has them all."""
        chosen = _dtype_of_case(entry)
        if dtype != chosen:
            return f"error inputs have dtypes of their own: run as {dtype_name(chosen)}"
        return "" if _has_errors(entry) else "the list has no error inputs for it"

    def calls(self, subject: Subject) -> Sequence[Call]:
        """Those whose tensors are on the CPU; ``note`` is the list's ``ErrorInput``."""
        seed_everything(subject.seed)
        found = [
            dataclasses.replace(call_of(one.sample_input), note=one) for one in subject.entry.errors() or ()
        ]
        return [call for call in found if all(tensor.device.type == "cpu" for tensor in call.tensors())][
            : self.most
        ]

    def act(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """On the CPU too it must raise, and what the list says; where it does not, there is no reference."""
        if device is not None:
            return subject.entry.run(call)
        try:
            result = subject.entry.run(call)
        except call.note.error_type as error:
            if re.search(call.note.error_regex, str(error)):
                raise
            raise NotImplementedError("the CPU's message is not the list's") from error
        raise NotImplementedError(f"the CPU raises nothing and returns a {type(result).__name__}")

    def judge(self, sample: Sample, subject: Subject, device: TestedDevice) -> None:
        """By type, then by message."""
        expected, error = sample.expected.value, sample.error
        assert isinstance(expected, Raised)
        judge_raised(sample, expected.error, device)
        if not sample.raised:
            return
        said, words = str(error), str(expected.error)
        same = _neutral(said, device.name) == _neutral(words, "cpu")
        sample.metrics = {"messages": 1.0, "messages_of_the_cpu": float(same)}
        if not same and not re.search(sample.call.note.error_regex, said):
            sample.outcome, sample.raised = Outcome.FAILED_EXCEPTION, False
            pattern = sample.call.note.error_regex
            sample.message = f"said {said!r}; the list's pattern is {pattern!r}"[:MESSAGE_CHARACTERS]


def _has_errors(entry: Entry) -> bool:
    try:
        return any(True for _ in entry.errors() or ())
    except Exception:  # noqa: BLE001 - generators run any code; the case will say what was raised
        return True


def _dtype_of_case(entry: Entry) -> torch.dtype:
    for dtype in _PREFERRED:
        if dtype in entry.dtypes:
            return dtype
    return min(entry.dtypes, key=str)


def _neutral(message: str, device: str) -> str:
    """A message without the name and number of the device, in any case."""
    return re.sub(rf"\b{re.escape(device)}(:\d+)?\b", "DEVICE", message, flags=re.IGNORECASE)
