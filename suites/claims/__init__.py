"""What the documentation and the launch post of TorchNeuron say of the device, as cases.

Importing this imports no torch, so that the supervising process can plan with it. A process that has torch
calls :func:`list_cases`, and a worker :func:`run_case`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from results.plan import Case
    from suites.device import TestedDevice
    from suites.result import CaseResult

__all__ = ["SUITE", "list_cases", "run_case"]

SUITE = "claims"


def list_cases() -> list[Case]:
    """A case for every claim, by id; imports torch, which the claims are written in."""
    from suites.claims.registry import cases

    return cases()


def run_case(case: Case, device: TestedDevice) -> CaseResult:
    """Check one claim on a device; see :func:`suites.claims.run.run_case`."""
    from suites.claims.run import run_case as run

    return run(case, device)
