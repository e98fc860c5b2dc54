"""A worker dies: of a signal, of an exit, before its first case or after its last one."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from harness import local, processes
from harness.oom import OomWatch
from results.vocabulary import Fate, RunState
from tests.faults import jobs
from tests.faults.conftest import MakeRun
from tests.faults.runs import account_for, attempts_of, message_of, wait_until


@pytest.mark.parametrize(
    ("victim", "fate", "words"),
    [
        ("segfaults", Fate.SIGNALLED, "SIGSEGV"),
        ("aborts", Fate.SIGNALLED, "SIGABRT"),
        ("sigkills", Fate.SIGNALLED, "SIGKILL"),
        ("exits_3", Fate.EXITED, "exit code 3"),
        ("exits_0", Fate.EXITED, "exit code 0"),
        ("exits_255", Fate.EXITED, "exit code 255"),
        ("raises", Fate.EXITED, "exit code 1"),
    ],
)
def test_a_death_in_a_case_is_named_and_costs_that_case(
    make_run: MakeRun, victim: str, fate: Fate, words: str
) -> None:
    run = make_run("a_passes", "b_passes", victim, "z_passes")
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {victim: "crashed"}, [(fate, victim)])
    assert words in message_of(run, victim)


def test_several_deaths_in_a_batch_cost_a_case_each(make_run: MakeRun) -> None:
    run = make_run("a_passes", "aborts", "m_passes", "segfaults", "sigkills", "z_passes")
    run.supervise()
    victims = ("aborts", "segfaults", "sigkills")
    account_for(run, dict.fromkeys(victims, "crashed"), [(Fate.SIGNALLED, name) for name in victims])


@pytest.mark.parametrize("victim", ["exits_7_at_exit", "segfaults_at_exit"])
def test_a_death_after_success_takes_no_result_back(make_run: MakeRun, victim: str) -> None:
    run = make_run("a_passes", victim)
    run.supervise()
    account_for(run, {}, [(Fate.DIED_AFTER_SUCCESS, "")])


def test_a_kill_by_the_kernel_for_want_of_memory_is_told_from_any_other(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 7\noom_kill 4\n")
    monkeypatch.setattr(local, "OomWatch", lambda: OomWatch(vmstat))
    run = make_run("a_passes", "hangs", "z_passes")

    def kernel() -> None:
        wait_until(lambda: run.inside("hangs"))
        vmstat.write_text("pgfault 9\noom_kill 5\n")
        os.kill(run.inside("hangs"), signal.SIGKILL)

    thread = threading.Thread(target=kernel)
    thread.start()
    run.supervise()
    thread.join()
    account_for(run, {"hangs": "out_of_memory"}, [(Fate.OOM_KILLED, "hangs")])
    assert "the kernel killed the process" in message_of(run, "hangs")


def test_the_death_of_the_fork_server_is_no_fault_of_a_case(make_run: MakeRun) -> None:
    run = make_run("a_passes", "takes_a_while", "z_passes")

    def kill_server() -> None:
        wait_until(lambda: run.inside("takes_a_while"))
        os.kill(processes.server_pid(), signal.SIGKILL)

    thread = threading.Thread(target=kill_server)
    thread.start()
    assert run.supervise().state is RunState.COMPLETE
    thread.join()
    workers = [event.fate for event in run.events() if hasattr(event, "fate")]
    assert set(workers) <= {Fate.FINISHED, Fate.LOST}, workers
    account_for(run, {}, [(Fate.LOST, "takes_a_while")] * workers.count(Fate.LOST))


def test_a_fork_server_that_dies_before_the_run_begins_is_one_sentence(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object) -> None:
        raise EOFError("unexpected EOF")

    monkeypatch.setattr(processes.context().Process, "start", lose)
    with pytest.raises(processes.ChildError, match="the fork server died when getpid was to run; try again"):
        processes.call(os.getpid)


def test_deaths_at_start_mean_that_the_device_is_down_and_afterwards_the_run_goes_on(
    make_run: MakeRun,
) -> None:
    names = ("a_passes", "b_passes", "dies_at_import")
    run = make_run(*names)
    down = run.supervise()
    assert (down.state, down.exit_code) == (RunState.DEVICE_DOWN, 4)
    assert "3 workers in a row died before their first case" in down.reason
    assert "no module named nonesuch" in down.reason
    account_for(run, dict.fromkeys(names, "not_run"), [(Fate.DIED_AT_START, "")] * 3, complete=False)
    assert run.supervise(jobs.misbehave_well).exit_code == 0
    account_for(run, {}, [(Fate.DIED_AT_START, "")] * 3)


def test_a_case_whose_process_is_lost_three_times_is_given_up(make_run: MakeRun) -> None:
    run = make_run("a_passes", "hangs", "z_passes")
    done = threading.Event()

    def keep_killing_the_server() -> None:
        seen: set[int] = set()
        while not done.is_set():
            inside = run.inside("hangs")
            if inside and inside not in seen:
                seen.add(inside)
                os.kill(processes.server_pid(), signal.SIGKILL)
            done.wait(0.02)

    thread = threading.Thread(target=keep_killing_the_server)
    thread.start()
    state = run.supervise().state
    done.set()
    thread.join()
    assert state is RunState.COMPLETE
    account_for(run, {"hangs": "infra_error"}, [(Fate.LOST, "hangs")] * 3, complete=True)
    assert "given up: 3 times its process was lost" in message_of(run, "hangs")


def test_a_model_whose_process_dies_between_two_stages_is_charged_with_the_next(make_run: MakeRun) -> None:
    victim = "model::x/dies_between_stages@0"
    run = make_run("a_passes", victim, "model::x/passes@0")
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {victim: "crashed"}, [(Fate.EXITED, victim)])
    assert message_of(run, victim) == "the process died on its way to forward: exit code 9"
    assert attempts_of(run, victim) == ["passed", "passed", "crashed"], "fetch, load, forward"
