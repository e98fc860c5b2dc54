"""Cases generated from the lists of ``torch.testing._internal`` of the installed torch.

Importing this imports no torch, so that the supervising process can plan with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from suites.opinfo.selection import (
    ALL,
    DEFAULT_CHECKS,
    DEFAULT_DATABASES,
    DEFAULT_DTYPES,
    FIRST,
    Selection,
    SelectionError,
    load_selection,
)

if TYPE_CHECKING:
    from results.plan import Case
    from suites.device import TestedDevice
    from suites.result import CaseResult

__all__ = [
    "ALL",
    "DEFAULT_CHECKS",
    "DEFAULT_DATABASES",
    "DEFAULT_DTYPES",
    "FIRST",
    "Selection",
    "SelectionError",
    "load_selection",
    "run_case",
]


def run_case(case: Case, device: TestedDevice) -> CaseResult:
    """Run one case on a device; see :func:`suites.opinfo.trial.run_case`. Imports torch's test machinery."""
    from suites.opinfo.trial import run_case as run

    return run(case, device)
