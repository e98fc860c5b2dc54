"""The supervisor with workers that do what a test tells them; no torch, no device."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from harness import local, processes
from harness.history import History
from harness.job import Job, ModelSettings
from harness.profiles import load_profile
from harness.progress import Progress
from harness.schedule import batches
from harness.supervisor import Supervisor
from results.events import Ended, Entered, Event, RunEnded, WorkerEnded, read_log
from results.plan import Case, Declared, Plan, make_plan
from results.vocabulary import CaseKind, Expectation, Fate, Outcome, RunState
from tests.harness import jobs

Runner = Callable[..., tuple[RunState, list[Event]]]


@pytest.fixture
def supervise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setattr(processes, "PRELOADED", ())

    def run(
        *names: str, job: Callable[[Job, Connection], None] = jobs.behave, **fields: object
    ) -> tuple[RunState, list[Event]]:
        monkeypatch.setattr(local, "run_job", job)
        plan = plan_of(*names)
        profile = load_profile("default", {"workers": 2, "attempts": 1, **fields}, tmp_path)
        models = ModelSettings(endpoint="", cache=tmp_path, max_bytes=0, seed=os.getpid())
        progress = Progress(plan.cases, stream=io.StringIO())
        engine = local.LocalEngine(profile.worker_count, profile.limits)
        state, _ = Supervisor(plan, tmp_path / "run", profile, models, {}, progress, engine).run()
        logs = sorted((tmp_path / "run" / "events").glob("*.jsonl"))
        return state, [record.event for log in logs for record in read_log(log)]

    return run


UNWANTED = Declared(expectation=Expectation.SKIP, category="slow", reason="an hour for nothing")


def plan_of(*names: str) -> Plan:
    cases = [
        Case(id=name, kind=CaseKind.MODEL)
        if name.startswith("model::")
        else Case(
            id=f"opinfo::f::c::{name}",
            kind=CaseKind.OPINFO,
            declared=UNWANTED if name.startswith("unwanted") else Declared(),
        )
        for name in names
    ]
    return make_plan(run="r", device="cpu", profile="p", cases=cases)


def ends(events: list[Event]) -> dict[str, Outcome]:
    found = [event for event in events if isinstance(event, Ended)]
    assert len({event.case for event in found}) == len(found), "one end a case"
    return {event.case.rsplit("::", 1)[-1]: event.outcome for event in found}


def deaths(events: list[Event]) -> list[WorkerEnded]:
    return [event for event in events if isinstance(event, WorkerEnded) and event.fate is not Fate.FINISHED]


def test_every_case_of_every_batch_ends(supervise: Runner) -> None:
    names = [f"passes[{i}]" for i in range(7)]
    state, events = supervise(*names, batch=3)
    assert state is RunState.COMPLETE
    assert ends(events) == dict.fromkeys(names, Outcome.PASSED)
    assert not deaths(events)


@pytest.mark.parametrize(
    ("victim", "fate", "words"),
    [("segfaults", Fate.SIGNALLED, "SIGSEGV"), ("leaves", Fate.EXITED, "exit code 3"),
     ("raises", Fate.EXITED, "exit code 1")],
)  # fmt: skip
def test_a_death_costs_one_case(supervise: Runner, victim: str, fate: Fate, words: str) -> None:
    names = ["a_passes", victim, "z_passes"]
    state, events = supervise(*names)
    assert state is RunState.COMPLETE
    assert ends(events) == {"a_passes": "passed", victim: "crashed", "z_passes": "passed"}
    (death,) = deaths(events)
    assert (death.fate, death.case) == (fate, f"opinfo::f::c::{victim}")
    assert words in next(e.message for e in events if isinstance(e, Ended) and e.outcome == "crashed")


@pytest.mark.parametrize("victim", ["hangs", "hangs_with_child"])
def test_a_hang_is_ended_with_its_children(supervise: Runner, victim: str) -> None:
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    state, events = supervise("a_passes", victim, "z_passes", **{"deadlines.test": 0.5})
    assert state is RunState.COMPLETE
    assert ends(events) == {"a_passes": "passed", victim: "timed_out", "z_passes": "passed"}
    assert [death.fate for death in deaths(events)] == [Fate.KILLED_AT_DEADLINE]
    left = {p.pid for p in psutil.Process().children(recursive=True)} - before
    names = [" ".join(psutil.Process(pid).cmdline()) for pid in left]
    assert all("forkserver" in name or "resource_tracker" in name for name in names), names


def test_dying_after_the_last_case_takes_nothing_back(supervise: Runner) -> None:
    state, events = supervise("a_passes", "exits")
    assert state is RunState.COMPLETE
    assert set(ends(events).values()) == {Outcome.PASSED}
    assert [(death.fate, death.exit_code) for death in deaths(events)] == [(Fate.DIED_AFTER_SUCCESS, 7)]


def test_deaths_at_start_mean_that_the_device_is_down(supervise: Runner) -> None:
    state, events = supervise(*(f"passes[{i}]" for i in range(6)), job=jobs.die_at_start, batch=1)
    assert state is RunState.DEVICE_DOWN
    assert not ends(events)
    (end,) = [event for event in events if isinstance(event, RunEnded)]
    assert "workers in a row died before their first case" in end.reason


def test_an_interrupt_charges_no_case(supervise: Runner) -> None:
    state, events = supervise("passes", job=jobs.interrupt_parent)
    assert state is RunState.INTERRUPTED
    assert not ends(events)
    assert [death.fate for death in deaths(events)] == [Fate.INTERRUPTED]


def test_models_go_first_and_each_alone() -> None:
    cases = [
        Case(id="model::a/b@0", kind=CaseKind.MODEL),
        Case(id="model::a/c@0", kind=CaseKind.MODEL),
        *(Case(id=f"opinfo::f::c::{i}", kind=CaseKind.OPINFO) for i in range(5)),
    ]
    rules = load_profile("default", {"batch": 2}).rules
    grouped = batches(cases, rules, History())
    assert [len(batch) for batch in grouped] == [1, 1, 2, 2, 1]
    assert [case for batch in grouped for case in batch] == cases


def test_what_is_declared_a_skip_is_never_run_and_says_why(supervise: Runner) -> None:
    state, events = supervise("pass1", "unwanted")
    assert state is RunState.COMPLETE
    assert ends(events)["unwanted"] is Outcome.SKIPPED_BACKEND
    assert not [e for e in events if isinstance(e, Entered) and e.case.endswith("unwanted")]
    (end,) = [e for e in events if isinstance(e, Ended) and e.case.endswith("unwanted")]
    assert (end.message, end.facts) == ("an hour for nothing", {"category": "slow"})
    state, events = supervise("pass1", "unwanted")
    assert len([e for e in events if isinstance(e, Ended)]) == 2, "a resumed run does not skip it again"


def test_a_batch_that_cannot_be_stopped_keeps_no_other_from_it() -> None:
    supervisor: Any = object.__new__(Supervisor)
    batches = [Mock(end=None) for _ in range(3)]
    batches[0].stop.side_effect = OSError("no such process")
    supervisor._running = [(None, batch) for batch in batches]
    supervisor._engine = engine = Mock()
    with pytest.raises(OSError, match="no such process"):
        supervisor._abandon()
    assert [batch.stop.call_count for batch in batches] == [1, 1, 1]
    assert engine.close.call_count == 1
    assert supervisor._running == []
