"""A worker takes too much, or leaves something behind."""

from __future__ import annotations

import pytest

from harness import process_tree
from results.vocabulary import Fate, RunState
from tests.faults.conftest import MakeRun
from tests.faults.jobs import MIB
from tests.faults.runs import account_for, alive, message_of


@pytest.mark.parametrize("victim", ["holds_memory", "holds_memory_in_a_child"])
def test_memory_blows_up(make_run: MakeRun, victim: str) -> None:
    run = make_run("a_passes", victim, "z_passes", max_memory_bytes=150 * MIB)
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {victim: "out_of_memory"}, [(Fate.MEMORY_LIMIT, victim)])
    assert "the limit is 0.15 GiB" in message_of(run, victim)


def test_the_device_has_no_memory_left(make_run: MakeRun) -> None:
    run = make_run("a_passes", "device_memory", "z_passes")
    run.supervise()
    account_for(run, {"device_memory": "out_of_memory"}, [])


def test_a_fork_bomb_is_bounded_and_nothing_of_it_lives_on(make_run: MakeRun) -> None:
    run = make_run("a_passes", "fork_bombs", "z_passes", max_processes=20)
    run.supervise()
    account_for(run, {"fork_bombs": "crashed"}, [(Fate.PROCESS_LIMIT, "fork_bombs")])
    assert len(run.children()) >= 20
    assert not [pid for pid in run.children() if alive(pid)]


@pytest.mark.parametrize("victim", ["leaves_child", "leaves_daemon"])
def test_what_a_worker_leaves_behind_is_ended_with_it(make_run: MakeRun, victim: str) -> None:
    run = make_run("a_passes", victim, "z_passes")
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {}, [])
    (child,) = run.children()
    assert not alive(child)


def test_a_dead_process_that_nobody_waited_for_is_not_alive() -> None:
    import os

    child = os.fork()
    if child == 0:
        os._exit(0)
    try:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert not process_tree.is_alive(child)
    finally:
        os.waitpid(child, 0)
