"""What is known of a batch when its log breaks off at any record."""

from __future__ import annotations

import pytest

from harness.following import Following
from results.events import Ended, Entered, Event, Record
from results.plan import Case
from results.vocabulary import CaseKind, Outcome, Stage

MODEL = Case(id="model::a/b@0", kind=CaseKind.MODEL)
FIRST, SECOND = (Case(id=f"opinfo::f::c::{name}", kind=CaseKind.OPINFO) for name in "ab")


def entered(case: Case, stage: Stage) -> Event:
    return Entered(case=case.id, attempt=1, stage=stage)


def ended(case: Case, stage: Stage, outcome: Outcome = Outcome.PASSED) -> Event:
    return Ended(case=case.id, attempt=1, stage=stage, outcome=outcome, seconds=0.0)


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
    records: int, under_way: Case | None, stage: Stage | None, left: tuple[Case, ...]
) -> None:
    following = Following((MODEL, FIRST, SECOND))
    following.take(Record(number, 0.0, event) for number, event in enumerate(LOG[:records]))
    assert (following.under_way, following.stage, following.left) == (under_way, stage, left)
    assert following.done == (records == len(LOG))
    assert following.entered_any == (records > 0)
    assert (following.entered is not None) == (records % 2 == 1)
