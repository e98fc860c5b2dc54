"""The runs of the store, and those that a run can be compared with: same device, same profile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard import data

TREND_RUNS = 14
_MAX_RUNS = 1000


@dataclass(frozen=True, slots=True)
class Run:
    """What tells runs apart."""

    run: str
    device: str
    profile: str
    started: datetime | None


def runs() -> list[Run]:
    """The runs of the store, the latest first; asked for once, since it counts the cases of them all."""
    found = data.rows(
        "SELECT run, device, profile, started FROM v_run_heads "
        f"ORDER BY started DESC NULLS LAST, run DESC LIMIT {_MAX_RUNS}"
    )
    return [Run(**item) for item in found]


def trend(run: str) -> list[Run]:
    """This run and those before it on the same device with the same profile, oldest first."""
    known = runs()
    at = next((place for place, item in enumerate(known) if item.run == run), None)
    if at is None:
        return []
    alike = [
        item
        for item in known[at:]
        if (item.device, item.profile) == (known[at].device, known[at].profile)
        and (item.started is not None or item.run == run)
    ]
    return alike[:TREND_RUNS][::-1]


def previous(run: str) -> Run | None:
    """The last run before this one on the same device with the same profile."""
    course = trend(run)
    return course[-2] if len(course) > 1 else None
