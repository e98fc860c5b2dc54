"""Makes the cases of a selection from op_db; this side imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from results.plan import Case
from results.vocabulary import CaseKind
from suites.opinfo.selection import DEFAULT_DTYPES, Selection, SelectionError, load_selection
from suites.values import dtype_name

SUITE = "opinfo"
FORWARD = "forward"


@cache
def operators() -> dict[str, Any]:
    """The OpInfo entries of the installed torch by full name (``div.floor_rounding``)."""
    table = {op.full_name: op for op in op_db}
    if len(table) != len(op_db):
        raise RuntimeError("op_db of this torch has two entries with one full name; ids would not be unique")
    return table


def dtype_of(name: str) -> torch.dtype:
    """``torch.float32`` for ``float32``.

    Raises:
        SelectionError: torch has no such dtype.
    """
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise SelectionError(f"torch has no dtype {name!r}")
    return dtype


def cases(selection: Selection | None = None, dtypes: Sequence[str] = DEFAULT_DTYPES) -> list[Case]:
    """The cases of a selection, sorted by id: every operator × dtype, check ``forward``.

    A pair that op_db does not list is a case too, with the reason in ``spec["unsupported"]``;
    so the denominator is operators × dtypes whatever a torch version supports.

    Raises:
        SelectionError: an operator or a dtype does not exist.
    """
    selection = selection or load_selection()
    table = operators()
    wanted = {dtype_name(dtype_of(name)): dtype_of(name) for name in dtypes}
    chosen = selection.resolve(table)
    made = [_case(table[op], op, name, dtype) for op in chosen for name, dtype in wanted.items()]
    return sorted(made, key=lambda case: case.id)


def _case(info: Any, op: str, name: str, dtype: torch.dtype) -> Case:
    spec = {"op": op, "dtype": name, "check": FORWARD}
    # What op_db lists for the CPU: a dtype the device lacks is for the device to refuse.
    if dtype not in info.supported_dtypes("cpu"):
        spec["unsupported"] = f"op_db lists no {name} for this operator"
    return Case(id=f"{SUITE}::op_db::{op}::{FORWARD}[{name}]", kind=CaseKind.OPINFO, spec=spec)
