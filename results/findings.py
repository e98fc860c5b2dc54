"""What ``harness db check`` says: one sentence a finding, and what to do about it."""

from __future__ import annotations

import dataclasses
from enum import StrEnum


class Weight(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    NOTE = "note"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        weight: a note says what a reader may want to know; nothing that is shown is wrong for it.
        what: the kind, in one or two words that do not change.
        run: id of the run that it is about, ``""`` if it is about the whole store.
        sentence: what was found.
        advice: what to do, ``""`` if nothing.
    """

    weight: Weight = Weight.ERROR
    what: str
    run: str = ""
    sentence: str
    advice: str = ""


REBUILD = "make the database anew from the event logs: `harness ingest --rebuild`"
COMPACT = "`harness db compact` removes it"


def some(names: list[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
