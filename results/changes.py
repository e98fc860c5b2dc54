"""What can become of a case from one run to another: the classes of a diff, with what each one means.

The classes are told in ``results/sql/views_7_diff.sql``; every case of either run lies in exactly one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Change(StrEnum):
    """A class of cases, in the order in which they are shown: what asks for work first."""

    REGRESSED = "regressed"
    EARLIER_STAGE = "earlier_stage"
    BECAME_SKIPPED = "became_skipped"
    CHANGED_SIGNATURE = "changed_signature"
    FLAKY = "flaky"
    NOT_RUN = "not_run"
    REMOVED = "removed"
    ADDED = "added"
    NOW_RUN = "now_run"
    NO_LONGER_SKIPPED = "no_longer_skipped"
    LATER_STAGE = "later_stage"
    NEWLY_PASSING = "newly_passing"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """How a class is read.

    Attributes:
        meaning: one sentence for a reader.
        mirror: the class of the same case when the two runs change places.
        total: which of the totals of ``diff_classes`` it is a part of.
        of: that total in words.
    """

    meaning: str
    mirror: Change
    total: str
    of: str


_EITHER = ("cases", "cases of either run")
_FAILED_BOTH = ("failed_both", "that failed in both")

CHANGES: Mapping[Change, ChangeRule] = {
    Change.REGRESSED: ChangeRule(
        "It passed and does not pass now.", Change.NEWLY_PASSING, "passed_before", "that passed before"
    ),
    Change.EARLIER_STAGE: ChangeRule(
        "It failed, and fails in an earlier stage now.", Change.LATER_STAGE, *_FAILED_BOTH
    ),
    Change.BECAME_SKIPPED: ChangeRule(
        "It had a result and is skipped now.",
        Change.NO_LONGER_SKIPPED,
        "judged_before",
        "that were not skipped",
    ),
    Change.CHANGED_SIGNATURE: ChangeRule(
        "It fails in the same stage in another way.", Change.CHANGED_SIGNATURE, *_FAILED_BOTH
    ),
    Change.FLAKY: ChangeRule(
        "It passed in one of the two and is declared to be flaky.", Change.FLAKY, *_EITHER
    ),
    Change.NOT_RUN: ChangeRule(
        "It had a result and has none now: nobody knows how it is.",
        Change.NOW_RUN,
        "known_before",
        "that had a result",
    ),
    Change.REMOVED: ChangeRule(
        "It was planned and is not planned now; that is neither better nor worse.",
        Change.ADDED,
        "planned_before",
        "planned before",
    ),
    Change.ADDED: ChangeRule("It was not planned before.", Change.REMOVED, "planned_after", "planned now"),
    Change.NOW_RUN: ChangeRule(
        "It had no result and has one now; it is not known to have got better.",
        Change.NOT_RUN,
        "unknown_before",
        "that had no result",
    ),
    Change.NO_LONGER_SKIPPED: ChangeRule(
        "It was skipped and has another result now.",
        Change.BECAME_SKIPPED,
        "skipped_before",
        "that were skipped",
    ),
    Change.LATER_STAGE: ChangeRule(
        "It failed, and gets further before it fails now.", Change.EARLIER_STAGE, *_FAILED_BOTH
    ),
    Change.NEWLY_PASSING: ChangeRule(
        "It failed and passes now.", Change.REGRESSED, "failed_before", "that failed before"
    ),
    Change.UNCHANGED: ChangeRule("It came out the same.", Change.UNCHANGED, *_EITHER),
}

WORSE = "regressed, in an earlier stage, or passed before and skipped now"
"""What a gate on a diff counts; the column ``worse`` of ``diff_cases``."""
