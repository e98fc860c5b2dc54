"""What changed from one catalog to another: models that came, went, moved on, or matter more than before.

Needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from model_zoo.catalog import CatalogEntry


class Change(StrEnum):
    """What became of a model; one may have changed in several ways."""

    ADDED = "added"
    REMOVED = "removed"
    REVISION = "revision"
    GATED = "gated"
    TASK = "task"
    LIBRARY = "library"
    ARCHITECTURE = "architecture"
    CONFIG = "config"
    DTYPE = "dtype"
    FORMATS = "formats"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Difference:
    """One change of one model.

    Attributes:
        before, after: what the catalogs say of it, ``""`` for one that does not have it.
        share: of the downloads of the second catalog, or of the first for a model that went.
    """

    id: str
    change: Change
    before: str
    after: str
    share: float


MOVED = 0.001
"""Change of a model's share of all downloads that is told, by default: a tenth of a per cent."""

_FIELDS = {
    Change.REVISION: "revision",
    Change.GATED: "gated",
    Change.TASK: "task",
    Change.LIBRARY: "library",
    Change.ARCHITECTURE: "architecture",
    Change.CONFIG: "config_hash",
    Change.DTYPE: "dtype",
    Change.FORMATS: "formats",
}


def differences(
    before: Iterable[CatalogEntry], after: Iterable[CatalogEntry], moved: float = MOVED
) -> list[Difference]:
    """Every change, sorted by kind and then by the share of downloads it concerns, the largest first.

    Args:
        moved: a share of downloads counts as changed if it differs by so much; 0 is any difference.
    """
    old, new = {e.id: e for e in before}, {e.id: e for e in after}
    share_before, share_after = _shares(old.values()), _shares(new.values())
    found = [
        Difference(name, Change.ADDED, "", entry.revision, share_after[name])
        for name, entry in new.items()
        if name not in old
    ]
    found += [
        Difference(name, Change.REMOVED, entry.revision, "", share_before[name])
        for name, entry in old.items()
        if name not in new
    ]
    for name in old.keys() & new.keys():
        for change, field in _FIELDS.items():
            was, now = _text(getattr(old[name], field)), _text(getattr(new[name], field))
            if was != now:
                found.append(Difference(name, change, was, now, share_after[name]))
        step = abs(share_after[name] - share_before[name])
        if step and step >= moved:
            was, now = f"{share_before[name]:.4%}", f"{share_after[name]:.4%}"
            found.append(Difference(name, Change.SHARE, was, now, share_after[name]))
    order = {change: number for number, change in enumerate(Change)}
    return sorted(found, key=lambda one: (order[one.change], -one.share, one.id))


def _shares(entries: Iterable[CatalogEntry]) -> dict[str, float]:
    downloads = {entry.id: entry.downloads for entry in entries}
    total = sum(downloads.values()) or 1
    return {name: count / total for name, count in downloads.items()}


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
