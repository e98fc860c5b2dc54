"""Naming a run: by its id, or by what it is in the store: ``latest``, ``latest:DEVICE``, ``previous``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LATEST = "latest"
PREVIOUS = "previous"
HELP = "a run's id, latest, latest:DEVICE, or previous: the one before it, of the same device and profile"

Runs = Sequence[Mapping[str, Any]]


class NoSuchRunError(ValueError):
    """No run is meant by a name; the message says why, without the store's name."""


def select(runs: Runs, name: str, *, beside: str | None = None) -> str:
    """The id of the run that a name means. An id is taken as such, even one that reads as another name.

    Args:
        runs: rows of ``v_runs``, the latest first.
        name: what a user wrote.
        beside: the run before which ``previous`` lies (default: the latest).

    Raises:
        NoSuchRunError: there is none.
    """
    if any(row["run"] == name for row in runs):
        return name
    if name == LATEST and runs:
        return str(runs[0]["run"])
    if name == PREVIOUS and runs:
        return _before(runs, beside or str(runs[0]["run"]))
    if name.startswith(f"{LATEST}:"):
        return _latest_of(runs, name.removeprefix(f"{LATEST}:"))
    has = f"it has {', '.join(str(row['run']) for row in runs[:5])}" if runs else "it has none"
    raise NoSuchRunError(f"no run {name!r}; {has}")


def _latest_of(runs: Runs, device: str) -> str:
    found = next((row["run"] for row in runs if row["device"] == device), None)
    if found is None:
        devices = ", ".join(sorted({str(row["device"]) for row in runs}))
        raise NoSuchRunError(f"no run on device {device!r}; it has runs on {devices or 'none'}")
    return str(found)


def _before(runs: Runs, run: str) -> str:
    at = next(place for place, row in enumerate(runs) if row["run"] == run)
    kind = (runs[at]["device"], runs[at]["profile"])
    for row in runs[at + 1 :]:
        if (row["device"], row["profile"]) == kind:
            return str(row["run"])
    raise NoSuchRunError(
        f"no run before {run} on device {kind[0]} with profile {kind[1]}; name a run by its id"
    )
