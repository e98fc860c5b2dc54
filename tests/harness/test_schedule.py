"""What runs next, and what follows from how it ended."""

from __future__ import annotations

import dataclasses

from harness.engine import BatchEnd
from harness.history import History
from harness.schedule import MAX_LOST, Rules, Schedule, Task, batches
from results.events import Disturbed, Ended
from results.plan import Case, Declared
from results.vocabulary import CaseKind, Expectation, Fate, Outcome, Stage

RULES = Rules(size=4, seconds=10, group_size=6, group_seconds=100, attempts=2, reruns=10, bisections=2)


def cases(*names: str, expectation: Expectation = Expectation.PASS) -> list[Case]:
    declared = Declared(expectation=expectation)
    return [Case(id=f"opinfo::f::c::{name}", kind=CaseKind.OPINFO, declared=declared) for name in names]


def ended(case: Case, outcome: Outcome, attempt: int = 1) -> Ended:
    return Ended(case=case.id, attempt=attempt, stage=Stage.TEST, outcome=outcome, seconds=0.0)


def finish(schedule: Schedule, task: Task, **outcomes: Outcome) -> list[object]:
    for case in task.cases:
        name = case.id.rsplit("::", 1)[-1]
        schedule.took(task, ended(case, outcomes.get(name, Outcome.PASSED), task.attempt))
    return list(schedule.over(task, BatchEnd(fate=Fate.FINISHED)))


def names(task: Task | None) -> list[str]:
    assert task is not None
    return [case.id.rsplit("::", 1)[-1] for case in task.cases]


def test_batches_are_bounded_by_number_and_by_expected_time() -> None:
    given = cases(*"abcdef")
    assert [len(b) for b in batches(given, RULES, History())] == [4, 2]
    slow = History({case.id: 6.0 for case in given})
    assert [len(b) for b in batches(given, RULES, slow)] == [1] * 6


def of_file(file: str, count: int) -> list[Case]:
    spec = {"group": file}
    return [Case(id=f"upstream::{file}::T::{n}", kind=CaseKind.PYTEST, spec=spec) for n in range(count)]


def test_cases_of_a_group_share_no_process_with_others_and_have_bounds_of_their_own() -> None:
    given = [*of_file("a", 8), *of_file("b", 3), Case(id="pytest::c::-::t", kind=CaseKind.PYTEST)]
    found = batches(given, RULES, History())
    assert sorted((len(batch), batch[0].spec.get("group", "")) for batch in found) == [
        (1, ""), (2, "a"), (3, "b"), (6, "a"),
    ]  # fmt: skip
    slow = History({case.id: 60.0 for case in given})
    assert [len(batch) for batch in batches(given[:4], RULES, slow)] == [1] * 4


def test_a_file_at_which_pytest_dies_is_collected_once_and_not_for_each_of_its_tests() -> None:
    schedule = Schedule(of_file("a", 6), dataclasses.replace(RULES, attempts=1), History())
    task = schedule.next()
    assert task is not None
    end = BatchEnd(fate=Fate.DIED_AT_COLLECTION, signal=6, remaining=task.cases, entered_any=False)
    told = schedule.over(task, end)
    assert [(event.case, event.outcome) for event in told if isinstance(event, Ended)] == [
        (case.id, Outcome.CRASHED) for case in task.cases
    ]
    assert schedule.empty


def test_what_takes_longest_goes_first_and_what_crashed_goes_alone() -> None:
    given = cases(*"abcd")
    known = History({given[2].id: 9.0, given[0].id: 0.1}, frozenset({given[1].id, given[2].id}))
    found = [[c.id[-1] for c in batch] for batch in batches(given, RULES, known)]
    assert found == [["c"], ["a", "d"], ["b"]]


def test_an_unexpected_failure_runs_again_alone_and_only_so_often() -> None:
    schedule = Schedule(cases(*"ab"), RULES, History())
    first = schedule.next()
    assert first is not None
    finish(schedule, first, b=Outcome.FAILED_NUMERIC)
    again = schedule.next()
    assert again is not None
    assert (names(again), again.attempt) == (["b"], 2)
    finish(schedule, again, b=Outcome.FAILED_NUMERIC)
    assert schedule.empty


def test_an_expected_failure_is_not_repeated() -> None:
    schedule = Schedule(cases("a", expectation=Expectation.FAIL), RULES, History())
    task = schedule.next()
    assert task is not None
    finish(schedule, task, a=Outcome.CRASHED)
    assert schedule.empty


def test_a_disturbed_case_names_who_disturbs_it() -> None:
    schedule = Schedule(cases(*"abcd"), RULES, History())
    first = schedule.next()
    assert first is not None
    finish(schedule, first, d=Outcome.FAILED_EXCEPTION)
    again = schedule.next()
    assert again is not None
    finish(schedule, again)
    found: list[object] = []
    while (task := schedule.next()) is not None:
        assert task.bisection is not None
        assert names(task)[-1] == "d"
        outcome = Outcome.FAILED_EXCEPTION if "b" in names(task) else Outcome.PASSED
        found += finish(schedule, task, d=outcome)
    (disturbed,) = found
    assert isinstance(disturbed, Disturbed)
    assert (disturbed.case, disturbed.by) == ("opinfo::f::c::d", ("opinfo::f::c::b",))


def test_a_disturbance_that_cannot_be_repeated_names_nobody_and_is_told() -> None:
    schedule = Schedule(cases(*"ab"), RULES, History())
    first = schedule.next()
    assert first is not None
    finish(schedule, first, b=Outcome.FAILED_EXCEPTION)
    again = schedule.next()
    assert again is not None
    finish(schedule, again)
    found: list[object] = []
    answers = iter([Outcome.FAILED_EXCEPTION, Outcome.PASSED])
    while (task := schedule.next()) is not None:
        assert names(task) == ["a", "b"]
        found += finish(schedule, task, b=next(answers))
    assert found == [Disturbed(case="opinfo::f::c::b", by=(), experiments=2)]


def test_a_lost_process_costs_its_case_an_attempt_until_it_is_given_up() -> None:
    schedule = Schedule(cases(*"ab"), RULES, History())
    told: list[object] = []
    for expected in range(1, MAX_LOST + 1):
        task = schedule.next()
        assert task is not None
        assert task.attempt == expected
        end = BatchEnd(
            fate=Fate.LOST, case=task.cases[0].id, stage="test", interrupted=task.cases[0],
            remaining=task.cases[1:],
        )  # fmt: skip
        told += schedule.over(task, end)
        if expected == 1:
            rest = schedule.next()
            assert names(rest) == ["b"]
    (given_up,) = told
    assert isinstance(given_up, Ended)
    assert (given_up.outcome, given_up.attempt) == (Outcome.INFRA_ERROR, MAX_LOST)
    assert schedule.empty


def test_repetitions_of_a_run_are_bounded() -> None:
    rules = Rules(size=10, seconds=100, group_size=10, group_seconds=100, attempts=3, reruns=2, bisections=0)
    schedule = Schedule(cases(*"abcde"), rules, History())
    first = schedule.next()
    assert first is not None
    finish(schedule, first, **dict.fromkeys("abcde", Outcome.CRASHED))
    seen = []
    while (task := schedule.next()) is not None:
        seen += [(names(task)[0], task.attempt)]
        finish(schedule, task, **dict.fromkeys("abcde", Outcome.CRASHED))
    assert sorted(seen) == [("a", 2), ("a", 3), ("b", 2), ("b", 3)]
