"""The check of the forms that write into their first argument."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from suites.device import TestedDevice
from suites.opinfo.checks.forms import FormsCheck, memory_of
from suites.opinfo.checks.forward import can_have_gaps, with_gaps
from suites.opinfo.entries import Entry
from suites.opinfo.samples import Call, spread
from suites.opinfo.subject import Subject

SAMPLES = 7
"""Samples that are called in every form."""


class InPlace(FormsCheck):
    """``Tensor.add_`` for ``add``."""

    name = "inplace"
    meaning = (
        "The form that writes into its first argument returns that very tensor, and the memory behind it, "
        "seen through another tensor, holds what the CPU's does; it raises the CPU's type of exception where "
        "the CPU raises, as for a dtype that the result cannot be cast to."
    )
    wide = True
    derived = True
    empty_proves = True

    def lacks(self, entry: Entry, dtype: torch.dtype) -> str:
        """Many operators have no such form."""
        return "" if entry.in_place is not None else "it has no form that writes into its first argument"

    def calls(self, subject: Subject) -> Sequence[Call]:
        """A few samples whose first argument is a tensor, in every form."""
        usable = [call for call in subject.calls if call.args and _is_plain(call.args[0])]
        return [form for call in spread(usable, SAMPLES) for form in _forms(call)]

    def act(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """What it returned, whether that is the argument, and the argument's memory."""
        target, write = call.args[0], subject.entry.in_place
        assert write is not None
        memory = memory_of(target)
        result = write(*call.args, **call.kwargs)
        return {"result": result, "returned the argument itself": str(result is target), "memory": memory}


def _is_plain(value: Any) -> bool:
    return type(value) is torch.Tensor and value.layout == torch.strided


def _forms(call: Call) -> Iterator[Call]:
    target, *rest = call.args
    yield dataclasses.replace(call, form="into the tensor as it is")
    if can_have_gaps(target):
        yield dataclasses.replace(call, args=(with_gaps(target), *rest), form="into memory with gaps")
    narrower = _narrower(target.dtype)
    if narrower is not None:
        yield dataclasses.replace(call, args=(target.to(narrower), *rest), form=f"into {narrower}")


def _narrower(dtype: torch.dtype) -> torch.dtype | None:
    """One that results of this one cannot be cast to; there is none for bool."""
    if dtype.is_complex:
        return torch.float32
    if dtype.is_floating_point:
        return torch.int64
    return None if dtype == torch.bool else torch.bool
