"""The search for the case that makes another one fail."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bisection import Bisection
from results.plan import Case
from results.vocabulary import CaseKind


def case(number: int) -> Case:
    return Case(id=f"opinfo::f::c::{number:03}", kind=CaseKind.OPINFO)


def search(count: int, guilty: set[int]) -> Bisection:
    """Search with a suspect that fails if all of ``guilty`` run before it."""
    bisection = Bisection(case(999), [case(number) for number in range(count)])
    while bisection.next is not None:
        ran = {int(c.id.rsplit("::", 1)[-1]) for c in bisection.next}
        bisection.learn(guilty <= ran)
    return bisection


@given(st.integers(1, 200), st.data())
def test_one_culprit_is_found_in_logarithmically_many_experiments(count: int, data: st.DataObject) -> None:
    culprit = data.draw(st.integers(0, count - 1))
    found = search(count, {culprit})
    assert found.culprits == (case(culprit),)
    assert found.experiments <= 2 * math.ceil(math.log2(count)) + 1 + 2


@given(st.integers(2, 60), st.data())
def test_several_that_disturb_only_together_are_all_named(count: int, data: st.DataObject) -> None:
    guilty = data.draw(st.sets(st.integers(0, count - 1), min_size=2, max_size=4))
    found = search(count, guilty)
    assert {case(number).id for number in guilty} <= {culprit.id for culprit in found.culprits}


def test_what_was_found_is_run_once_more_and_so_is_the_suspect_alone() -> None:
    bisection = Bisection(case(999), [case(0), case(1)])
    asked = []
    while bisection.next is not None:
        asked.append(bisection.next)
        bisection.learn(case(1) in bisection.next)
    assert asked == [(case(0), case(1)), (case(1),), (case(1),), ()]
    assert bisection.culprits == (case(1),)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([False], "it does not come again at all"),
        ([True, True, False], "it does not come again after the one that was found"),
        ([True, True, True, True], "alone it fails too"),
        ([True, True, True, None], "alone it did not come to an end"),
        ([True, False, False, False], "nor after all that were found together"),
    ],
)
def test_what_cannot_be_repeated_accuses_nobody(answers: list[bool | None], why: str) -> None:
    bisection = Bisection(case(999), [case(0), case(1)])
    for answer in answers:
        assert bisection.next is not None
        bisection.learn(answer)
    assert (bisection.next, bisection.culprits, bisection.experiments) == (None, (), len(answers)), why
