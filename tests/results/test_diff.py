"""A diff of two runs that went through plans, logs and ingest, and its report in every form."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import results
from results.changes import CHANGES, Change
from results.diff import read_diff, resolve_pair
from results.diff_report import render_diff, report
from results.ingest import ingest
from results.layout import database_path, run_path
from results.scoreboard import Rate
from results.store import StoreError
from tests.results.changes import AFTER, BEFORE, ELSEWHERE, make_changed_store
from tests.results.factory import COMPLETE_RUN, INCOMPLETE_RUN, make_run, make_store


@pytest.fixture(scope="module")
def changed_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_changed_store(tmp_path_factory.mktemp("changed"))


@pytest.fixture
def changed(changed_path: Path) -> Iterator[results.Store]:
    with results.open(changed_path) as store:
        yield store


def test_each_class_has_its_count_and_denominator(changed: results.Store) -> None:
    diff = read_diff(changed, BEFORE, AFTER)
    counts = {row.change: row.cases for row in diff.classes}
    assert list(counts) == list(Change)
    assert {change: rate.numerator for change, rate in counts.items()} == {
        Change.REGRESSED: 3,
        Change.EARLIER_STAGE: 1,
        Change.BECAME_SKIPPED: 1,
        Change.CHANGED_SIGNATURE: 1,
        Change.FLAKY: 0,
        Change.NOT_RUN: 1,
        Change.REMOVED: 1,
        Change.ADDED: 1,
        Change.NOW_RUN: 0,
        Change.NO_LONGER_SKIPPED: 1,
        Change.LATER_STAGE: 1,
        Change.NEWLY_PASSING: 1,
        Change.UNCHANGED: 2,
    }
    assert counts[Change.REGRESSED] == Rate(3, 6)  # of those that passed before
    assert (diff.cases, diff.both, diff.worse, diff.changed) == (14, 12, 5, 12)
    assert diff.of(Change.REGRESSED).models == Rate(1, 3)
    assert diff.of(Change.REGRESSED).downloads == Rate(900, 1200)


def test_what_was_not_run_is_neither_removed_nor_fixed_and_is_said_first(changed: results.Store) -> None:
    diff = read_diff(changed, BEFORE, AFTER)
    assert [item.case for item in diff.of(Change.NOT_RUN).examples] == ["opinfo::unrun::forward[float32]"]
    assert [item.case for item in diff.of(Change.REMOVED).examples] == ["opinfo::gone::forward[float32]"]
    assert diff.warnings == (
        f"Run {AFTER}: INCOMPLETE: 1 of 13 cases has no result; the run ended interrupted: Ctrl-C",
    )
    lines = render_diff(diff, "table", changed.path, width=400).splitlines()
    assert lines[1] == diff.warnings[0]
    assert "Not the same in both" in lines[3]


def test_differences_of_the_environment_are_named(changed: results.Store) -> None:
    found = {item.name: (item.before, item.after) for item in read_diff(changed, BEFORE, AFTER).environment}
    assert found.pop("plan")[0] != found.get("plan")
    assert found == {"torch": ("2.12.0", "2.13.0"), "driver": (None, "7"), "setting workers": ("2", "4")}
    found = {
        item.name: (item.before, item.after) for item in read_diff(changed, BEFORE, ELSEWHERE).environment
    }
    assert found["device"] == ("neuron", "cpu")


def test_equal_new_failures_are_one_line_with_one_reproducer(changed: results.Store) -> None:
    diff = read_diff(changed, BEFORE, AFTER)
    cluster = diff.clusters[0]
    assert (cluster.change, cluster.cases, cluster.outcome) == (Change.REGRESSED, 3, "failed_exception")
    text = render_diff(diff, "table", changed.path, width=400)
    again = f"harness repro {cluster.example_case} --run {AFTER} --store {changed.path}"
    assert text.count(again) == 1


def test_examples_are_bounded_and_the_most_downloaded_first(changed: results.Store) -> None:
    diff = read_diff(changed, BEFORE, AFTER, examples=1)
    regressed = diff.of(Change.REGRESSED)
    assert [item.downloads for item in regressed.examples] == [900]
    assert "Regressed: 3, the first 1." in render_diff(diff, "table", changed.path, width=400)
    assert len(diff.clusters) == 1 < diff.cluster_count


def test_a_commit_that_changed_is_named(changed: results.Store) -> None:
    (moved,) = [
        item for item in read_diff(changed, BEFORE, AFTER).of(Change.REGRESSED).examples if item.downloads
    ]
    assert moved.before_id is not None
    assert moved.case != moved.before_id
    text = render_diff(read_diff(changed, BEFORE, AFTER), "html", changed.path)
    assert f"(before: {moved.before_id.rpartition('@')[2]})" in text


def test_every_form_says_the_same(changed: results.Store) -> None:
    diff = read_diff(changed, BEFORE, AFTER)
    record = json.loads(render_diff(diff, "json", changed.path))
    counts = {row["change"]: row["cases"]["numerator"] for row in record["classes"]}
    table = csv.DictReader(io.StringIO(render_diff(diff, "csv", changed.path)))
    assert {row["class"]: int(row["cases"]) for row in table if not row["suite"]} == counts
    assert record["warnings"] == list(diff.warnings)
    for form in ("md", "html", "table"):
        text = render_diff(diff, form, changed.path, width=300).replace("\\", "")
        assert "3 of 6 that passed before (50.0%)" in text
        assert CHANGES[Change.REMOVED].meaning in text
        assert "INCOMPLETE" in text


def test_a_run_and_itself_is_empty(changed: results.Store) -> None:
    diff = read_diff(changed, BEFORE, BEFORE)
    assert (diff.changed, diff.worse, diff.environment, diff.clusters) == (0, 0, (), ())
    assert "Environment: the same in both." in report(diff, changed.path).notes


def test_runs_are_named_by_what_they_are(changed: results.Store) -> None:
    assert resolve_pair(changed, None, AFTER) == (BEFORE, AFTER)
    assert resolve_pair(changed, "previous", AFTER) == (BEFORE, AFTER)
    assert resolve_pair(changed, AFTER, "previous") == (AFTER, BEFORE)
    assert resolve_pair(changed, "latest:neuron", "latest") == (AFTER, ELSEWHERE)
    for before, after, why in (
        ("previous", "previous", "each run would be the one before the other"),
        ("latest:tpu", "latest", "no run on device 'tpu'; it has runs on cpu, neuron"),
        ("previous", BEFORE, f"no run before {BEFORE} on device neuron with profile default"),
        ("previous", None, f"no run before {ELSEWHERE} on device cpu"),
        ("2020", None, f"no run '2020'; it has {ELSEWHERE}, {AFTER}, {BEFORE}"),
    ):
        with pytest.raises(StoreError, match=why):
            resolve_pair(changed, before, after)


def test_a_run_that_is_named_as_a_selector_is_found_by_its_id(tmp_path: Path) -> None:
    for run in ("latest", COMPLETE_RUN):
        ingest(tmp_path, make_run(run_path(tmp_path, run), run))
    with results.open(tmp_path) as store:
        assert store.resolve_run("latest") == "latest"


def test_a_store_of_an_older_harness_says_what_to_do(tmp_path: Path) -> None:
    make_store(tmp_path)
    with duckdb.connect(str(database_path(tmp_path))) as connection:
        connection.execute("DROP MACRO TABLE diff_cases")
    with results.open(tmp_path) as store, pytest.raises(StoreError, match="harness ingest --rebuild"):
        read_diff(store, COMPLETE_RUN, INCOMPLETE_RUN)
