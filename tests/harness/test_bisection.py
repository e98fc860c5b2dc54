"""The search for the case that makes another one fail."""

from __future__ import annotations

import math

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
    assert found.experiments <= 2 * math.ceil(math.log2(count)) + 1


@given(st.integers(2, 60), st.data())
def test_several_that_disturb_only_together_are_all_named(count: int, data: st.DataObject) -> None:
    guilty = data.draw(st.sets(st.integers(0, count - 1), min_size=2, max_size=4))
    found = search(count, guilty)
    assert {case(number).id for number in guilty} <= {culprit.id for culprit in found.culprits}


def test_a_failure_that_does_not_come_again_accuses_nobody() -> None:
    bisection = Bisection(case(999), [case(0), case(1)])
    bisection.learn(False)
    assert (bisection.next, bisection.culprits, bisection.experiments) == (None, (), 1)
