"""Operator cases generated from ``torch.testing._internal.op_db`` of the installed torch.

Importing this imports no torch, so that the supervising process can plan with it:
:func:`list_cases` asks a process of its own. A worker, which has torch, calls :func:`run_case`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites.opinfo.listing import ListingError, list_cases
from suites.opinfo.selection import ALL, DEFAULT_DTYPES, FIRST, Selection, SelectionError, load_selection

if TYPE_CHECKING:
    from results.plan import Case
    from suites.device import TestedDevice
    from suites.result import CaseResult

__all__ = [
    "ALL",
    "DEFAULT_DTYPES",
    "FIRST",
    "ListingError",
    "Selection",
    "SelectionError",
    "list_cases",
    "load_selection",
    "run_case",
]


def run_case(case: Case, device: TestedDevice) -> CaseResult:
    """Run one case on a device; see :func:`suites.opinfo.run.run_case`. Imports torch's test machinery."""
    from suites.opinfo.run import run_case as run

    return run(case, device)
