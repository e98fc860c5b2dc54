"""Runs that a run can be compared with: earlier ones of the same device and profile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard import data

TREND_RUNS = 14


@dataclass(frozen=True, slots=True)
class Before:
    """The run before."""

    run: str
    started: datetime | None


def previous(run: str) -> Before | None:
    """The last run before this one on the same device with the same profile."""
    found = data.row(
        "SELECT o.run, o.started FROM v_runs o JOIN v_runs r ON r.run = ? "
        "WHERE o.device = r.device AND o.profile = r.profile AND o.started < r.started "
        "ORDER BY o.started DESC LIMIT 1",
        run,
    )
    return None if found is None else Before(found["run"], found["started"])


def trend(run: str) -> list[str]:
    """This run and those before it on the same device with the same profile, oldest first."""
    found = data.values(
        "SELECT o.run FROM v_runs o JOIN v_runs r ON r.run = ? "
        "WHERE o.device = r.device AND o.profile = r.profile AND o.started <= r.started "
        f"ORDER BY o.started DESC LIMIT {TREND_RUNS}",
        run,
    )
    return found[::-1] or [run]
