"""A worker does not go on: in C, in Python, deaf to signals, before its first case, after its last one."""

from __future__ import annotations

from results.vocabulary import Fate, RunState
from tests.faults import jobs
from tests.faults.conftest import MakeRun
from tests.faults.runs import account_for, message_of

HANGS = ("hangs", "hangs_deaf", "hangs_in_c", "hangs_printing", "stops")


def test_cases_that_hang_are_ended_at_their_deadline_however_they_hang(make_run: MakeRun) -> None:
    run = make_run("a_passes", *HANGS, "z_passes", batch=1, workers=7, **{"deadlines.test": 3.0})
    assert run.supervise().state is RunState.COMPLETE
    fates = [(Fate.KILLED_AT_DEADLINE, victim) for victim in HANGS]
    account_for(run, dict.fromkeys(HANGS, "timed_out"), fates)
    assert {message_of(run, victim) for victim in HANGS} == {"test took longer than 3 s"}


def test_after_a_hang_the_rest_of_its_batch_goes_on(make_run: MakeRun) -> None:
    run = make_run("a_passes", "hangs", "z_passes", **{"deadlines.test": 2.0})
    run.supervise()
    account_for(run, {"hangs": "timed_out"}, [(Fate.KILLED_AT_DEADLINE, "hangs")])


def test_a_case_that_falls_silent_is_ended_before_its_deadline_and_one_that_prints_is_not(
    make_run: MakeRun,
) -> None:
    run = make_run(
        "a_passes", "hangs", "hangs_printing", "z_passes", batch=1, workers=4, silence=3,
        **{"deadlines.test": 6.0},
    )  # fmt: skip
    run.supervise()
    account_for(
        run,
        {"hangs": "timed_out", "hangs_printing": "timed_out"},
        [(Fate.SILENT, "hangs"), (Fate.KILLED_AT_DEADLINE, "hangs_printing")],
    )
    assert "recorded and printed nothing for 3 s" in message_of(run, "hangs")


def test_hanging_at_import_is_a_device_that_is_down(make_run: MakeRun) -> None:
    names = ("a_passes", "hangs_at_import")
    run = make_run(*names, **{"deadlines.start": 0.5})
    assert run.supervise().exit_code == 4
    account_for(run, dict.fromkeys(names, "not_run"), [(Fate.KILLED_AT_DEADLINE, "")] * 3, complete=False)
    again = make_run(*names)
    again.supervise(jobs.misbehave_well)
    account_for(again, {}, [(Fate.KILLED_AT_DEADLINE, "")] * 3)


def test_hanging_at_exit_takes_no_result_back(make_run: MakeRun) -> None:
    run = make_run("a_passes", "hangs_at_exit", **{"deadlines.start": 4.0})
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {}, [(Fate.KILLED_AT_DEADLINE, "")])
