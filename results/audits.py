"""What an audit found of skips and expected failures: which are still true, and which are not any more."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from results.diagnosis import category_of, first_line
from results.expectations import Entry
from results.signature import signature
from results.vocabulary import Category, Outcome


class Answer(StrEnum):
    """What running a case anyway says of the reason for which it is not run or not expected to pass."""

    NOW_PASSES = "now passes"
    OTHER_REASON = "fails for another reason"
    GONE = "no longer exists"
    STILL_TRUE = "still true"
    CANNOT = "cannot be audited"
    UNJUDGED = "could not be judged"


ACTIONABLE = (Answer.NOW_PASSES, Answer.OTHER_REASON, Answer.GONE)
"""Answers after which somebody has to change an expectation or a test."""

_ABOUT_BLAME = (Category.UPSTREAM_BUG, Category.DEVICE_BUG, Category.HARNESS_GAP, Category.FLAKY)
"""Categories that say who has to act; a failure under them may look like any."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A case that is audited, with what is claimed of it.

    Attributes:
        entry: the expectation that decides it, ``None`` for a skip of its own suite.
        reason: why it is skipped or expected to fail.
        location: ``file:line`` of the expectation, or of the skip.
        known: signature of the failure that it is known to have, ``""`` if none was ever seen.
    """

    case: str
    entry: Entry | None
    reason: str
    location: str
    known: str = ""

    @property
    def claim(self) -> str:
        """What is claimed: the expectation's word, or that its suite skips it."""
        return self.entry.expectation.value if self.entry else "upstream skip"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """How a case came out in an audit.

    Attributes:
        facts: those of its result.
    """

    case: str
    time: datetime.datetime
    outcome: Outcome
    exception: str = ""
    message: str = ""
    signature: str = ""
    facts: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One case of an audit.

    Attributes:
        why: what was seen, in a line.
        passes: in how many audits in a row it passed, up to this one.
        days: days between the first and the last of these.
    """

    subject: Subject
    answer: Answer
    why: str = ""
    passes: int = 0
    days: int = 0


def answer(subject: Subject, seen: Sequence[Observation]) -> Answered:
    """Judge a case by its observations, the latest first; there may be none."""
    if not seen:
        return Answered(subject=subject, answer=Answer.UNJUDGED, why="the audit ended before it was run")
    now = seen[0]
    what, why = _judged(subject, now, seen[1:])
    if what is not Answer.NOW_PASSES:
        return Answered(subject=subject, answer=what, why=why)
    passes = next((n for n, one in enumerate(seen) if one.outcome is not Outcome.PASSED), len(seen))
    days = (now.time.date() - seen[passes - 1].time.date()).days
    return Answered(subject=subject, answer=what, why=passed_for(passes, days), passes=passes, days=days)


def passed_for(passes: int, days: int) -> str:
    """``in 3 audits over 12 days``."""
    over = f" over {days} day{'s' * (days != 1)}" if passes > 1 else ""
    return f"in {passes} audit{'s' * (passes != 1)}{over}"


def _judged(subject: Subject, now: Observation, before: Sequence[Observation]) -> tuple[Answer, str]:
    said = first_line(now.exception, now.message)
    if now.outcome is Outcome.PASSED:
        return Answer.NOW_PASSES, ""
    if now.outcome in (Outcome.INFRA_ERROR, Outcome.NOT_RUN):
        return Answer.UNJUDGED, said
    if now.outcome in (Outcome.SKIPPED_UPSTREAM, Outcome.SKIPPED_BACKEND):
        where = now.facts.get("location", "")
        return Answer.CANNOT, f"it skips itself as it runs: {said}" + (f" ({where})" if where else "")
    if now.outcome is Outcome.COLLECTION_ERROR and "nodeid" in now.facts:
        return Answer.GONE, f"{now.facts['nodeid']} is not collected any more"
    if now.outcome is Outcome.UNSUPPORTED:
        return Answer.STILL_TRUE, said
    other = _difference(subject, now, before)
    return (Answer.OTHER_REASON, f"{other}: {said}") if other else (Answer.STILL_TRUE, said)


def _difference(subject: Subject, now: Observation, before: Sequence[Observation]) -> str:
    """How a failure differs from the stated one, ``""`` if it does not or nothing was stated."""
    entry = subject.entry
    if entry is not None and entry.outcome not in ("", now.outcome):
        return f"{now.outcome}, not {entry.outcome}"
    if subject.known:
        return "another failure than the known one" if now.signature != subject.known else ""
    if entry is not None and entry.category not in _ABOUT_BLAME:
        category = category_of(now.outcome, now.message)
        if category is not None and category is not entry.category:
            return f"{category}, not {entry.category}"
    earlier = next((one.signature for one in before if one.signature), "")
    return "another failure than in the audit before" if earlier and earlier != now.signature else ""


def raised_signature(raised: str) -> str:
    """The signature of a failure that was recorded as ``Exception: message``."""
    exception, _, message = raised.partition(": ")
    return signature(exception, message) if raised else ""


def ledger(
    answers: Iterable[Answered], gone: Iterable[tuple[Entry, str]], today: datetime.date
) -> list[dict[str, Any]]:
    """A row for each claim and what was found of it, what needs somebody first.

    Args:
        gone: entries that match no case any more, with why.
    """
    groups: dict[tuple[str, ...], list[Answered]] = {}
    for one in answers:
        subject = one.subject
        differs = one.why if one.answer is not Answer.STILL_TRUE else ""
        key = (one.answer, subject.claim, subject.location, subject.reason, differs)
        groups.setdefault(key, []).append(one)
    rows = [_row(group, today) for group in groups.values()]
    rows += [_gone_row(entry, why, today) for entry, why in gone]
    order = list(Answer)
    return sorted(rows, key=lambda row: (order.index(row["answer"]), not row["overdue"], -row["cases"]))


def _row(group: Sequence[Answered], today: datetime.date) -> dict[str, Any]:
    first = min(group, key=lambda one: one.subject.case)
    subject = first.subject
    return {
        "answer": first.answer,
        "overdue": _overdue(subject.entry, today),
        "claim": subject.claim,
        "category": subject.entry.category.value if subject.entry else "",
        "reason": subject.reason,
        "cases": len(group),
        "example": subject.case,
        "found": first.why,
        "audits": first.passes,
        "days": first.days,
        "at": subject.location,
    }


def _gone_row(entry: Entry, why: str, today: datetime.date) -> dict[str, Any]:
    return {
        "answer": Answer.GONE,
        "overdue": _overdue(entry, today),
        "claim": entry.expectation.value,
        "category": entry.category.value,
        "reason": entry.reason,
        "cases": 0,
        "example": entry.pattern,
        "found": why,
        "audits": 0,
        "days": 0,
        "at": entry.source,
    }


def _overdue(entry: Entry | None, today: datetime.date) -> str:
    due = entry.review_by if entry else None
    return f"past its review date {due}" if due is not None and due < today else ""
