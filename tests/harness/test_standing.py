"""What is known of a batch when its log breaks off at any record, or says what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.job import Job, ModelSettings
from harness.standing import Standing
from results.events import Ended, Entered, Event, OpsRecorded, Record, RunEnded, encode
from results.plan import Case
from results.vocabulary import CaseKind, Outcome, RunState, Stage

MODEL = Case(id="model::a/b@0", kind=CaseKind.MODEL)
FIRST, SECOND = (Case(id=f"opinfo::f::c::{name}", kind=CaseKind.OPINFO) for name in "ab")


def entered(case: Case, stage: Stage, attempt: int = 1) -> Event:
    return Entered(case=case.id, attempt=attempt, stage=stage)


def ended(case: Case, stage: Stage, outcome: Outcome = Outcome.PASSED) -> Event:
    return Ended(case=case.id, attempt=1, stage=stage, outcome=outcome, seconds=0.0)


def lines(*events: Event, first: int = 0) -> bytes:
    records = (Record(number, 0.0, event) for number, event in enumerate(events, first))
    return "".join(f"{encode(record)}\n" for record in records).encode()


@pytest.fixture
def standing() -> Standing:
    models = ModelSettings(endpoint="", cache=Path(), max_bytes=0, seed=0)
    return Standing(
        Job(
            worker="w", folder=Path(), compiler_cache=Path(), device="cpu", cases=(MODEL, FIRST, SECOND),
            attempt=1, threads=1, models=models,
        )
    )  # fmt: skip


LOG = [
    entered(MODEL, Stage.FETCH),
    ended(MODEL, Stage.FETCH),
    entered(MODEL, Stage.LOAD),
    ended(MODEL, Stage.LOAD, Outcome.FAILED_EXCEPTION),
    entered(FIRST, Stage.TEST),
    ended(FIRST, Stage.TEST),
    entered(SECOND, Stage.TEST),
    ended(SECOND, Stage.TEST),
]


@pytest.mark.parametrize(
    ("records", "under_way", "stage", "left"),
    [
        (0, None, None, (MODEL, FIRST, SECOND)),
        (1, MODEL, Stage.FETCH, (FIRST, SECOND)),
        (2, MODEL, Stage.LOAD, (FIRST, SECOND)),
        (3, MODEL, Stage.LOAD, (FIRST, SECOND)),
        (4, None, None, (FIRST, SECOND)),
        (5, FIRST, Stage.TEST, (SECOND,)),
        (6, None, None, (SECOND,)),
        (7, SECOND, Stage.TEST, ()),
        (8, None, None, ()),
    ],
)
def test_a_case_of_which_anything_is_known_is_under_way_until_its_result(
    standing: Standing, records: int, under_way: Case | None, stage: Stage | None, left: tuple[Case, ...]
) -> None:
    log = lines(*LOG[:records])
    assert len(standing.take(log)) == records
    place = Entered(case=under_way.id, attempt=1, stage=stage) if under_way and stage else None
    assert (standing.under_way, standing.place, standing.left) == (under_way, place, left)
    assert standing.done == (records == len(LOG))
    assert standing.entered_any == (records > 0)
    assert (standing.entered is not None) == (records % 2 == 1)
    assert (standing.offset, standing.refused) == (len(log), "")


NOBODY = Case(id="opinfo::f::c::of_nobody", kind=CaseKind.OPINFO)


@pytest.mark.parametrize(
    ("after", "event", "words"),
    [
        (0, RunEnded(run="r", state=RunState.COMPLETE), "a worker does not record run_ended"),
        (0, entered(NOBODY, Stage.TEST), "'opinfo::f::c::of_nobody', attempt 1, test is not its work"),
        (4, entered(FIRST, Stage.TEST, attempt=2), "attempt 2, test is not its work"),
        (4, entered(FIRST, Stage.LOAD), "attempt 1, load is not its work"),
        (0, entered(MODEL, Stage.LOAD), "'model::a/b@0' was to enter fetch then"),
        (1, entered(MODEL, Stage.FETCH), "'model::a/b@0' was still in fetch then"),
        (1, entered(FIRST, Stage.TEST), "'model::a/b@0' was still in fetch then"),
        (2, entered(FIRST, Stage.TEST), "'model::a/b@0' was to enter load then"),
        (2, ended(MODEL, Stage.LOAD), "'model::a/b@0' was not in load then"),
        (1, ended(FIRST, Stage.TEST), "'opinfo::f::c::a' was not in test then"),
        (0, OpsRecorded(case=FIRST.id, attempt=1, stage=Stage.TEST, calls=()), "was not in test then"),
        (6, entered(FIRST, Stage.TEST), "'opinfo::f::c::a' had its result already"),
        (6, ended(FIRST, Stage.TEST), "'opinfo::f::c::a' was not in test then"),
    ],
)
def test_a_record_that_cannot_be_is_refused_and_what_was_said_before_stands(
    standing: Standing, after: int, event: Event, words: str
) -> None:
    log = lines(*LOG[:after])
    taken = standing.take(log + lines(event, *LOG[after + 1 :], first=after))
    assert [record.event for record in taken] == LOG[:after]
    assert standing.refused.startswith(f"w.jsonl:{after + 1}: ")
    assert words in standing.refused
    assert standing.offset == len(log)
    assert not standing.take(lines(*LOG[after:], first=after)), "nothing is taken after that"


@pytest.mark.parametrize("lines_", [lines(*LOG[:2])[1:], lines(LOG[0], first=1), b"\x00\xff\n"])
def test_a_damaged_log_is_refused(standing: Standing, lines_: bytes) -> None:
    assert not standing.take(lines_)
    assert standing.refused.startswith("w.jsonl:1: ")
