"""What classes come to, in numbers: how many models run, and what share of downloads that covers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from model_zoo.catalog import About
from model_zoo.classes import Placed


def totals(placed: Sequence[Placed], about: About) -> dict[str, int | float]:
    """Counts over a catalog, each under the words that name it; a share says what it is of."""
    members = [one for one in placed if one.representative is not None]
    running = len(placed) - len(members)
    downloads = sum(one.entry.downloads for one in placed)
    found: dict[str, int | float] = {
        "models of the catalog": len(placed),
        "classes": len({one.key for one in placed if one.key}),
        "models without a class, which run": sum(not one.key for one in placed),
        "models that run": running,
        "models that another stands for": len(members),
        "models per run": round(len(placed) / running, 2) if running else 0.0,
        "downloads of the catalog": downloads,
        "downloads of models that another stands for": sum(one.entry.downloads for one in members),
    }
    if about.hub_downloads > 0:
        found["catalog's share of all downloads of the Hub, in %"] = round(
            100 * downloads / about.hub_downloads, 4
        )
    return found


def largest(placed: Sequence[Placed], limit: int) -> list[dict[str, Any]]:
    """The classes with most models, each with the model that stands for it; ``limit`` 0 is all."""
    groups: dict[str, list[Placed]] = {}
    for one in placed:
        if one.key:
            groups.setdefault(one.key, []).append(one)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        {
            "class": key,
            "models": len(group),
            "run": sum(one.representative is None for one in group),
            "downloads": sum(one.entry.downloads for one in group),
            "architecture": group[0].entry.architecture,
            "task": group[0].entry.task,
            "dtype": group[0].entry.dtype,
            "representative": (group[0].representative or group[0].entry).id,
        }
        for key, group in ordered[: limit or None]
    ]
