"""A worker does not go on: in C, in Python, deaf to signals, before its first case, after its last one."""

from __future__ import annotations

import pytest

from results.vocabulary import Fate, RunState
from tests.faults import jobs
from tests.faults.conftest import MakeRun
from tests.faults.runs import account_for, message_of

QUICK = {"deadlines.test": 1.0}


@pytest.mark.parametrize("victim", ["hangs", "hangs_in_c", "hangs_printing", "hangs_deaf", "stops"])
def test_a_case_that_hangs_is_ended_at_its_deadline(make_run: MakeRun, victim: str) -> None:
    run = make_run("a_passes", victim, "z_passes", **QUICK)
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {victim: "timed_out"}, [(Fate.KILLED_AT_DEADLINE, victim)])
    assert message_of(run, victim) == "test took longer than 1 s"


def test_a_case_that_falls_silent_is_ended_long_before_its_deadline(make_run: MakeRun) -> None:
    run = make_run("a_passes", "hangs", "z_passes", silence=1)
    run.supervise()
    account_for(run, {"hangs": "timed_out"}, [(Fate.SILENT, "hangs")])
    assert "recorded and printed nothing for 1 s" in message_of(run, "hangs")


def test_who_still_prints_is_not_silent(make_run: MakeRun) -> None:
    run = make_run("a_passes", "hangs_printing", "z_passes", silence=2, **{"deadlines.test": 4.0})
    run.supervise()
    account_for(run, {"hangs_printing": "timed_out"}, [(Fate.KILLED_AT_DEADLINE, "hangs_printing")])


def test_hanging_at_import_is_a_device_that_is_down(make_run: MakeRun) -> None:
    names = ("a_passes", "hangs_at_import")
    run = make_run(*names, **{"deadlines.start": 0.5})
    assert run.supervise().exit_code == 4
    account_for(run, dict.fromkeys(names, "not_run"), [(Fate.KILLED_AT_DEADLINE, "")] * 3, complete=False)
    run.supervise(jobs.misbehave_well)
    account_for(run, {}, [(Fate.KILLED_AT_DEADLINE, "")] * 3)


def test_hanging_at_exit_takes_no_result_back(make_run: MakeRun) -> None:
    run = make_run("a_passes", "hangs_at_exit", **{"deadlines.start": 1.0})
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {}, [(Fate.KILLED_AT_DEADLINE, "")])
