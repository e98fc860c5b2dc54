"""Collected counts: which drop is a finding, and against which runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import results
from results.collected import Drop, accept, drops
from results.events import Entered, RunEnded
from results.ingest import ingest
from results.layout import StoreError
from results.plan import Case, make_plan
from results.report import render_report
from results.scoreboard import scoreboard
from results.tables import Format
from results.vocabulary import CaseKind, RunState, Stage
from tests.results.factory import append, ended, started

FULL = {"test_a.py": 100, "test_b.py": 40}
ASKED = {"upstream_families": [], "upstream_files": [], "test_filter": "*", "max_collected_drop": 5}


class Nights:
    """A store to which runs are added, one an hour."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.number = 0

    def add(
        self, files: dict[str, int], *, broken: tuple[str, ...] = (), complete: bool = True,
        device: str = "neuron", suite: str = "upstream", **settings: Any,
    ) -> str:  # fmt: skip
        """A run that collected so many tests of each file; gives its id."""
        run, self.number = f"run-{self.number}", self.number + 1
        names = [f"{suite}::{file}::T::test_{n}" for file, count in files.items() for n in range(count)]
        names += [f"{suite}::{file}::-::<collection>" for file in broken]
        cases = [Case(id=name, kind=CaseKind.PYTEST) for name in names]
        plan = make_plan(run=run, device=device, profile="p", cases=cases, settings=ASKED | settings)
        folder = self.store / "runs" / run
        plan.save(folder)
        events: list[Any] = [started(plan)]
        for case in cases if complete else cases[1:]:
            events += [Entered(case=case.id, attempt=1, stage=Stage.TEST), ended(case, Stage.TEST)]
        append(folder, "supervisor", [*events, RunEnded(run=run, state=RunState.COMPLETE, reason="")])
        ingest(self.store, folder)
        return run

    def drops(self, run: str) -> list[Drop]:
        with results.open(self.store) as reader:
            return list(drops(reader, run))


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    clock = iter(range(1_000_000, 10_000_000))
    monkeypatch.setattr("results.events.time.time", lambda: float(next(clock)))
    return Nights(tmp_path / "store")


def test_the_first_run_and_an_equal_one_have_nothing_to_report(nights: Nights) -> None:
    assert nights.drops(nights.add(FULL)) == []
    assert nights.drops(nights.add(FULL)) == []
    assert nights.drops(nights.add({**FULL, "test_a.py": 120})) == []


def test_a_drop_above_the_limit_is_a_finding_and_one_at_it_is_not(nights: Nights) -> None:
    first = nights.add(FULL)
    assert nights.drops(nights.add({**FULL, "test_a.py": 95})) == []
    assert nights.drops(nights.add({**FULL, "test_a.py": 94})) == [Drop("test_a.py", 100, first, 94)]
    assert nights.drops(nights.add({**FULL, "test_a.py": 94}, max_collected_drop=6)) == []


def test_a_file_that_cannot_be_collected_has_lost_all_its_tests(nights: Nights) -> None:
    first = nights.add(FULL)
    run = nights.add({"test_a.py": 100}, broken=("test_b.py",))
    assert nights.drops(run) == [Drop("test_b.py", 40, first, 0)]
    with results.open(nights.store) as reader:
        (row,) = reader.rows("v_collected", run=run, file="test_b.py")
        assert (row["collected"], row["not_collected"]) == (0, 1)


def test_a_file_that_is_gone_is_a_finding_where_it_was_asked_for(nights: Nights) -> None:
    first = nights.add(FULL)
    assert nights.drops(nights.add({"test_a.py": 100}, upstream_files=["test_a.py"])) == []
    assert nights.drops(nights.add({"test_a.py": 100})) == [Drop("test_b.py", 40, first, 0)]


def test_a_slow_slide_is_seen_against_the_most_of_the_last_five_runs(nights: Nights) -> None:
    first, *others = (nights.add({"test_a.py": count}) for count in (100, 97, 94, 91, 88, 85))
    last = nights.add({"test_a.py": 82})
    assert nights.drops(others[1]) == [Drop("test_a.py", 100, first, 94)]
    assert nights.drops(last) == [Drop("test_a.py", 97, others[0], 82)]


def test_what_is_not_comparable_is_not_compared(nights: Nights) -> None:
    nights.add(FULL, complete=False)
    nights.add(FULL, device="cpu")
    nights.add(FULL, suite="pytest")
    nights.add({"test_a.py": 100}, test_filter="*a*")
    run = nights.add({"test_a.py": 10})
    assert nights.drops(run) == []
    assert nights.drops(nights.add({"test_a.py": 5}, test_filter="*a*")) == []
    assert nights.drops(nights.add({"test_c.py": 5}, suite="pytest")) == []


def test_an_accepted_run_is_where_comparing_begins(nights: Nights) -> None:
    nights.add(FULL)
    less = nights.add({**FULL, "test_a.py": 50})
    with results.open(nights.store) as reader:
        assert accept(reader, less) == "neuron"
    assert nights.drops(less) == []
    assert nights.drops(nights.add({**FULL, "test_a.py": 50})) == []
    assert nights.drops(nights.add({**FULL, "test_a.py": 40})) == [Drop("test_a.py", 50, less, 40)]


def test_only_a_complete_run_can_be_accepted(nights: Nights) -> None:
    run = nights.add(FULL, complete=False)
    with results.open(nights.store) as reader:
        with pytest.raises(StoreError, match="not complete"):
            accept(reader, run)
        with pytest.raises(StoreError, match="no run 'nonesuch'"):
            accept(reader, "nonesuch")


def test_reports_name_the_files(nights: Nights) -> None:
    nights.add(FULL)
    run = nights.add({**FULL, "test_a.py": 50})
    with results.open(nights.store) as reader:
        board = scoreboard(reader, run)
    assert "Test files with fewer tests than before: 1" in render_report(board, Format.MD)
    assert "collected tests,test_a.py,50,100" in render_report(board, Format.CSV)
