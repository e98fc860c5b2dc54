"""Faults of a device for tests: something is done one way on the CPU and another way on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.opinfo import Selection, trial
from suites.opinfo.catalog import cases
from suites.opinfo.entries import OP_DB, operators


def case_of(name, check, dtype="float32", database=OP_DB):
    """The case of one entry, of whichever list."""
    selection = Selection("test", (name,)) if database == OP_DB else None
    (found,) = [case for case in cases(selection, (dtype,), (check,), (database,)) if case.spec["op"] == name]
    return found


def other_on_device(
    monkeypatch, owner: Any, attribute: str, wrong: Callable[..., Any], reference=None
) -> None:
    """Replace an attribute while a case runs its samples on the device; the last one of it counts.

    Args:
        wrong: called on the device with what was there before, and the arguments.
        reference: used on the CPU, if not what was there before.
    """
    right = getattr(owner, attribute)
    monkeypatch.setattr(owner, attribute, reference or right)
    on_device = trial._on_device

    def wrongly(*arguments):
        before = getattr(owner, attribute)
        if before == (reference or right):
            setattr(owner, attribute, lambda *args, **kwargs: wrong(right, *args, **kwargs))
        try:
            return on_device(*arguments)
        finally:
            setattr(owner, attribute, before)

    monkeypatch.setattr(trial, "_on_device", wrongly)


def operator_on_device(monkeypatch, op: str, wrong: Callable[..., Any], reference=None) -> None:
    """The same for an operator of op_db."""
    other_on_device(monkeypatch, operators()[op], "op", wrong, reference)
