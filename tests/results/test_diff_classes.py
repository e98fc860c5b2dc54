"""The classes of a diff: what each case comes into, and what must hold whatever the two runs are."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Mapping

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results import schema
from results.changes import CHANGES, Change
from results.vocabulary import MODEL_STAGES, Outcome, Stage

_FAILURES = ("failed_numeric", "failed_exception", "unsupported", "crashed", "vacuous")
_SKIPS = ("skipped_upstream", "skipped_backend")
_UNKNOWN = ("not_run", "infra_error")
_RUNS = itertools.count()
_FEW = settings(max_examples=40, deadline=None)
"""A comparison takes a tenth of a second, most of it to plan the query."""


@dataclasses.dataclass(frozen=True)
class Came:
    """How a case came out; a model passed the stages before ``stage``."""

    outcome: str
    signature: str = ""
    stage: Stage = Stage.TEST
    expectation: str = "pass"
    downloads: int | None = None


Night = Mapping[str, Came]


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    schema.migrate(connection)
    return connection


def record(night: Night) -> str:
    """Put a run into the tables and return its id."""
    run = f"night-{next(_RUNS)}"
    database().execute("INSERT INTO runs VALUES (?, 'neuron', 'default', '', ?, '{}')", [run, len(night)])
    for case, came in night.items():
        kind = "model" if case.startswith("model::") else "opinfo"
        database().execute(
            "INSERT INTO planned (run, case_id, kind, suite, file, op, dtype, expectation, category, reason, "
            "link, owner, spec) VALUES (?, ?, ?, ?, '', '', '', ?, '', '', '', '', '{}')",
            [run, case, kind, kind, came.expectation],
        )
        stages = MODEL_STAGES if kind == "model" else (Stage.TEST,)
        if kind == "model":
            name = case.removeprefix("model::").partition("@")[0]
            database().execute(
                "INSERT INTO models VALUES (?, ?, ?, '', '', '', '', '', NULL, ?)",
                [run, case, name, came.downloads],
            )
        for stage in stages:
            last = stage == came.stage
            if last and came.outcome == "not_run":
                break
            _ended(run, case, stage, came if last else Came("passed"))
            if last:
                break
    return run


def _ended(run: str, case: str, stage: Stage, came: Came) -> None:
    database().execute(
        "INSERT INTO stage_results (run, log, seq, time, case_id, attempt, stage, outcome, seconds, "
        "exception, message, traceback, signature, metrics, facts) VALUES "
        "(?, '', 0, now()::TIMESTAMP, ?, 1, ?, ?, 0, '', '', '', ?, MAP {}, MAP {})",
        [run, case, stage.value, came.outcome, came.signature],
    )


def compare(before: Night, after: Night) -> list[tuple[str | None, str | None, str, bool]]:
    """(id before, id after, class, worse) of every row."""
    return compared(record(before), record(after))


def compared(before: str, after: str) -> list[tuple[str | None, str | None, str, bool]]:
    rows = database().execute(
        "SELECT before_id, after_id, class, worse FROM diff_cases(?, ?)", [before, after]
    )
    return rows.fetchall()


def _class(before: Came | None, after: Came | None, case: str = "opinfo::add") -> tuple[str, bool]:
    rows = compare({case: before} if before else {}, {case: after} if after else {})
    assert len(rows) == 1
    return rows[0][2], rows[0][3]


P, F, S = Came("passed"), Came("failed_exception", "one"), Came("skipped_backend")
COMPILE, FORWARD = (Came("failed_exception", "x", stage) for stage in (Stage.COMPILE, Stage.FORWARD))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (P, F, (Change.REGRESSED, True)),
        (P, Came("unsupported"), (Change.REGRESSED, True)),
        (P, Came("vacuous"), (Change.REGRESSED, True)),
        (F, P, (Change.NEWLY_PASSING, False)),
        (F, Came("failed_exception", "two"), (Change.CHANGED_SIGNATURE, False)),
        (F, Came("crashed", "one"), (Change.CHANGED_SIGNATURE, False)),
        (None, F, (Change.ADDED, False)),
        (F, None, (Change.REMOVED, False)),
        (P, S, (Change.BECAME_SKIPPED, True)),
        (F, S, (Change.BECAME_SKIPPED, False)),
        (S, F, (Change.NO_LONGER_SKIPPED, False)),
        (S, Came("skipped_upstream"), (Change.UNCHANGED, False)),
        (P, Came("not_run"), (Change.NOT_RUN, False)),
        (S, Came("not_run"), (Change.NOT_RUN, False)),
        (F, Came("infra_error", "hub"), (Change.NOT_RUN, False)),
        (Came("not_run"), P, (Change.NOW_RUN, False)),
        (Came("not_run"), F, (Change.NOW_RUN, False)),
        (Came("not_run"), Came("infra_error"), (Change.UNCHANGED, False)),
        (P, Came("failed_numeric", "n", expectation="flaky"), (Change.FLAKY, False)),
        (Came("failed_numeric", "n", expectation="flaky"), P, (Change.FLAKY, False)),
    ],
)
def test_each_change_has_its_class(
    before: Came | None, after: Came | None, expected: tuple[Change, bool]
) -> None:
    assert _class(before, after) == expected


def test_a_model_that_fails_earlier_or_later_is_told_by_its_stage() -> None:
    model = "model::a/b@0"
    assert _class(COMPILE, FORWARD, model) == (Change.EARLIER_STAGE, True)
    assert _class(FORWARD, COMPILE, model) == (Change.LATER_STAGE, False)
    assert _class(COMPILE, Came("passed", stage=Stage.COMPILE), model) == (Change.NEWLY_PASSING, False)


def test_a_model_whose_commit_changed_is_one_case() -> None:
    passed = Came("passed", stage=Stage.COMPILE)
    assert compare({"model::a/b@0": passed}, {"model::a/b@1": FORWARD}) == [
        ("model::a/b@0", "model::a/b@1", "regressed", True)
    ]


def test_two_commits_of_one_model_are_not_guessed_at() -> None:
    rows = compare({"model::a/b@0": FORWARD}, {"model::a/b@1": FORWARD, "model::a/b@2": FORWARD})
    assert Counter(row[2] for row in rows) == {"removed": 1, "added": 2}


_TESTS = st.builds(
    Came,
    outcome=st.sampled_from(("passed", *_FAILURES, *_SKIPS, *_UNKNOWN)),
    signature=st.sampled_from(("", "one", "two")),
    expectation=st.sampled_from(("pass", "pass", "fail", "flaky")),
)
_MODELS = st.builds(
    Came,
    outcome=st.sampled_from((*_FAILURES, *_UNKNOWN)),
    signature=st.sampled_from(("", "one", "two")),
    stage=st.sampled_from(MODEL_STAGES),
    downloads=st.none() | st.integers(0, 10**9),
) | st.builds(Came, outcome=st.just("passed"), stage=st.just(Stage.COMPILE), downloads=st.integers(0, 9))
_NIGHTS = st.builds(
    lambda tests, models: {**tests, **models},
    st.dictionaries(st.sampled_from([f"opinfo::op{n}" for n in range(5)]), _TESTS, max_size=5),
    st.dictionaries(st.sampled_from([f"model::a/{n}@{c}" for n in "xyz" for c in "01"]), _MODELS, max_size=4),
)


@given(_NIGHTS)
@_FEW
def test_a_run_does_not_differ_from_itself(night: Night) -> None:
    run = record(night)
    rows = compared(run, run)
    assert sorted(row[0] or "" for row in rows) == sorted(night)
    assert {row[2] for row in rows} <= {Change.UNCHANGED}
    assert not any(row[3] for row in rows)


@given(_NIGHTS, _NIGHTS)
@_FEW
def test_what_holds_of_any_two_runs(before: Night, after: Night) -> None:
    """Each case lies in one class; the other way round is the mirror; counts are those of the cases."""
    first, second = record(before), record(after)
    rows = compared(first, second)
    assert sorted(row[0] for row in rows if row[0] is not None) == sorted(before)
    assert sorted(row[1] for row in rows if row[1] is not None) == sorted(after)
    assert all(row[0] is not None or row[1] is not None for row in rows)
    assert {row[2] for row in rows} <= set(Change)
    there = Counter((b, a, change) for b, a, change, _ in rows)
    back = Counter((b, a, CHANGES[Change(change)].mirror) for a, b, change, _ in compared(second, first))
    assert there == back
    _assert_counted(first, second, rows)


def _assert_counted(first: str, second: str, rows: list[tuple[str | None, str | None, str, bool]]) -> None:
    cursor = database().execute("SELECT * FROM diff_classes(?, ?)", [first, second])
    names = [column[0] for column in cursor.description or ()]
    counted = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    assert sum(row["cases"] for row in counted) == len(rows)
    assert sum(row["worse"] for row in counted) == sum(row[3] for row in rows)
    assert sum(row["planned_before"] for row in counted) == sum(row[0] is not None for row in rows)
    assert sum(row["planned_after"] for row in counted) == sum(row[1] is not None for row in rows)
    for change, rule in CHANGES.items():
        cases = sum(row["cases"] for row in counted if row["class"] == change)
        assert cases == sum(row[2] == change for row in rows)
        assert cases <= sum(row[rule.total] for row in counted)


def test_every_outcome_has_a_state() -> None:
    night = {f"opinfo::{word}": Came(str(word)) for word in Outcome}
    run = record(night)
    states = dict(database().execute("SELECT outcome, state FROM diff_side(?)", [run]).fetchall())
    assert {word for word in Outcome if states[word] == "unknown"} == set(_UNKNOWN)
    assert {word for word in Outcome if states[word] == "skipped"} == set(_SKIPS)
    assert {word for word in Outcome if states[word] == "passed"} == {"passed"}


def test_a_mirror_mirrors_back() -> None:
    assert set(CHANGES) == set(Change)
    assert all(CHANGES[rule.mirror].mirror is change for change, rule in CHANGES.items())
