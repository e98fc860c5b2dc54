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
    """Replace an attribute once a case has run its samples on the reference.

    Args:
        wrong: called on the device with what was there before, and the arguments.
        reference: used on the CPU, if not what was there before.
    """
    right = getattr(owner, attribute)
    monkeypatch.setattr(owner, attribute, reference or right)
    on_reference = trial._on_reference

    def and_then(*arguments):
        setattr(owner, attribute, reference or right)
        found = on_reference(*arguments)
        setattr(owner, attribute, lambda *args, **kwargs: wrong(right, *args, **kwargs))
        return found

    monkeypatch.setattr(trial, "_on_reference", and_then)


def operator_on_device(monkeypatch, op: str, wrong: Callable[..., Any], reference=None) -> None:
    """The same for an operator of op_db."""
    other_on_device(monkeypatch, operators()[op], "op", wrong, reference)
