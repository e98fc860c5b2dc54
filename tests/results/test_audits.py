"""What an audit says of a claim, given how its case came out now and before."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest

from results.audits import Answer, Observation, Subject, answer, ledger, raised_signature
from results.expectations import Entry
from results.signature import signature
from results.vocabulary import Category, Expectation, Outcome

FIRST = datetime.datetime(2026, 11, 1, 22, 0)
ENTRY = Entry(
    pattern="s::f::c::t",
    is_glob=False,
    expectation=Expectation.FAIL,
    category=Category.NUMERICS,
    reason="rounds",
    added=FIRST.date(),
    review_by=datetime.date(2026, 11, 20),
    path=Path("known.toml"),
    line=3,
)


def subject(**fields: object) -> Subject:
    given = {"case": ENTRY.pattern, "entry": ENTRY, "reason": "rounds", "location": ENTRY.source}
    return Subject(**(given | fields))  # type: ignore[arg-type]


def seen(outcome: Outcome, day: int = 0, message: str = "", **fields: object) -> Observation:
    time = FIRST + datetime.timedelta(days=day)
    signed = signature("", message) if message else ""
    return Observation(
        case=ENTRY.pattern, time=time, outcome=outcome, message=message, signature=signed, **fields
    )  # type: ignore[arg-type]


def test_passing_is_told_with_the_audits_in_a_row_and_their_days() -> None:
    order = [Outcome.PASSED, Outcome.PASSED, Outcome.CRASHED, Outcome.PASSED]
    found = answer(subject(), [seen(outcome, day) for outcome, day in zip(order, (14, 5, 2, 0), strict=True)])
    assert (found.answer, found.why) == (Answer.NOW_PASSES, "in 2 audits over 9 days")
    assert answer(subject(), [seen(Outcome.PASSED)]).why == "in 1 audit"


@pytest.mark.parametrize(
    ("claim", "now", "expected"),
    [
        ({}, seen(Outcome.FAILED_NUMERIC, message="off by 3"), Answer.STILL_TRUE),
        ({}, seen(Outcome.CRASHED, message="SIGSEGV"), Answer.OTHER_REASON),
        ({}, seen(Outcome.FAILED_EXCEPTION, message="odd"), Answer.STILL_TRUE),
        ({}, seen(Outcome.UNSUPPORTED, message="no such dtype"), Answer.STILL_TRUE),
        ({}, seen(Outcome.SKIPPED_UPSTREAM, message="needs two"), Answer.CANNOT),
        ({}, seen(Outcome.INFRA_ERROR, message="no hub"), Answer.UNJUDGED),
        ({}, seen(Outcome.COLLECTION_ERROR, facts={"nodeid": "f::t"}), Answer.GONE),
        ({"known": signature("", "off 4")}, seen(Outcome.FAILED_NUMERIC, message="off 3"), Answer.STILL_TRUE),
        ({"known": signature("", "odd")}, seen(Outcome.FAILED_NUMERIC, message="off"), Answer.OTHER_REASON),
        (
            {"entry": dataclasses.replace(ENTRY, outcome="failed_exception")},
            seen(Outcome.FAILED_NUMERIC),
            Answer.OTHER_REASON,
        ),
        (
            {"entry": dataclasses.replace(ENTRY, category=Category.DEVICE_BUG)},
            seen(Outcome.CRASHED, message="SIGSEGV"),
            Answer.STILL_TRUE,
        ),
        ({"entry": None}, seen(Outcome.CRASHED, message="SIGSEGV"), Answer.STILL_TRUE),
    ],
)  # fmt: skip
def test_what_one_audit_says(claim: dict, now: Observation, expected: Answer) -> None:
    assert answer(subject(**claim), [now]).answer is expected


def test_without_a_stated_failure_the_audit_before_is_the_measure() -> None:
    skip = subject(entry=None)
    now, before = seen(Outcome.CRASHED, 1, "SIGSEGV"), seen(Outcome.FAILED_EXCEPTION, 0, "no kernel")
    assert answer(skip, [now, before]).answer is Answer.OTHER_REASON
    assert answer(skip, [now, seen(Outcome.PASSED, 0), now]).answer is Answer.STILL_TRUE
    assert answer(skip, []).answer is Answer.UNJUDGED


def test_the_failure_of_an_xfail_has_the_signature_that_it_has_without_the_mark() -> None:
    assert raised_signature("ValueError: at 0x12: no") == signature("ValueError", "at 0x34: no")
    assert raised_signature("") == ""


def test_the_ledger_groups_equal_claims_and_puts_first_what_needs_somebody() -> None:
    passes, fails = seen(Outcome.PASSED), seen(Outcome.FAILED_NUMERIC, message="off")
    answers = [answer(subject(case=f"s::f::c::t{n}"), [fails]) for n in range(3)]
    answers += [answer(subject(case="s::f::c::u"), [passes])]
    gone = dataclasses.replace(ENTRY, pattern="s::f::c::gone", review_by=None)
    before, after = datetime.date(2026, 11, 20), datetime.date(2026, 11, 21)
    rows = ledger(answers, [(gone, "matches no case")], after)
    assert [(row["answer"], row["cases"], row["overdue"]) for row in rows] == [
        (Answer.NOW_PASSES, 1, "past its review date 2026-11-20"),
        (Answer.GONE, 0, ""),
        (Answer.STILL_TRUE, 3, "past its review date 2026-11-20"),
    ]
    assert [row["example"] for row in rows] == ["s::f::c::u", "s::f::c::gone", "s::f::c::t0"]
    assert {row["overdue"] for row in ledger(answers, [], before)} == {""}
