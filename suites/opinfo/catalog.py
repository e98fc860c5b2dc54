"""Makes the cases of a selection from torch's lists; this side imports torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from results.plan import Case
from results.vocabulary import CaseKind
from suites.opinfo.checks import CHECKS, Check
from suites.opinfo.entries import DATABASES, OP_DB, Entry, dtype_of, entries
from suites.opinfo.selection import (
    ALL,
    DEFAULT_CHECKS,
    DEFAULT_DATABASES,
    DEFAULT_DTYPES,
    Selection,
    check_names,
    load_selection,
)
from suites.values import dtype_name

SUITE = "opinfo"


def cases(
    selection: Selection | None = None,
    dtypes: Sequence[str] = DEFAULT_DTYPES,
    checks: Sequence[str] = DEFAULT_CHECKS,
    databases: Sequence[str] = DEFAULT_DATABASES,
) -> list[Case]:
    """The cases of a selection, sorted by id: every entry × dtype × check.

    What a list does not have is a case too: a dtype of an entry with the reason in ``spec["unsupported"]``, a
    check of an entry with the reason in ``spec["skipped"]``; so the denominator is entries × dtypes × checks
    whatever a torch version supports.

    Args:
        selection: of the operators of ``op_db``; of the other lists all entries are taken.
        checks, databases: names, or ``all`` alone for all that there are.

    Raises:
        SelectionError: an operator, a dtype, a check or a list does not exist.
    """
    selection = selection or load_selection()
    if tuple(checks) == (ALL,):
        checks = tuple(CHECKS)
    check_names(checks, CHECKS, "opinfo_checks", what="check")
    wanted = {dtype_name(dtype_of(name)): dtype_of(name) for name in dtypes}
    made = [
        _case(entry, name, dtype, CHECKS[check])
        for entry in _chosen(selection, databases)
        for name, dtype in wanted.items()
        for check in dict.fromkeys(checks)
    ]
    return sorted(made, key=lambda case: case.id)


def _chosen(selection: Selection, databases: Sequence[str]) -> Iterator[Entry]:
    for database in DATABASES if tuple(databases) == (ALL,) else dict.fromkeys(databases):
        known = entries(database)
        for name in selection.resolve(known) if database == OP_DB else known:
            yield known[name]


def _case(entry: Entry, name: str, dtype: torch.dtype, check: Check) -> Case:
    spec: dict[str, Any] = {
        "database": entry.database,
        "op": entry.name,
        "dtype": name,
        "check": check.name,
    }
    if dtype not in entry.dtypes:
        spec["unsupported"] = f"{entry.database} lists no {name} for this {entry.noun}"
    elif why := entry.lacks(check.name) or check.lacks(entry, dtype):
        spec["skipped"] = why
    identity = f"{SUITE}::{entry.database}::{entry.name}::{check.name}[{name}]"
    return Case(id=identity, kind=CaseKind.OPINFO, spec=spec)
