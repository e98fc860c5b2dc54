"""The child that stays: it answers, it may die, and it does not outlive its parent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from torchneuron_backend.compiler import isolate

from ..conftest import run_python


def act(request: tuple[str, Any]) -> Any:
    what, value = request
    if what == "die":
        os.kill(os.getpid(), value)
    if what == "raise":
        raise ValueError(value)
    if what == "sleep":
        time.sleep(value)
    return os.getpid(), value


def test_one_child_answers_many_requests() -> None:
    worker = isolate.Worker(act)
    large = bytes(3 << 20)  # more than a pipe holds, both ways
    answers = [worker.ask(("return", value), 30) for value in (1, None, large)]
    assert [value for _, value in answers] == [1, None, large]
    assert len({pid for pid, _ in answers}) == 1
    assert answers[0][0] != os.getpid()


def test_what_it_raises_does_not_end_it() -> None:
    worker = isolate.Worker(act)
    pid, _ = worker.ask(("return", 1), 30)
    with pytest.raises(isolate.ChildFailedError, match="ValueError: no"):
        worker.ask(("raise", "no"), 30)
    assert worker.ask(("return", 2), 30) == (pid, 2)


def test_a_death_is_told_and_the_next_request_gets_a_new_child() -> None:
    worker = isolate.Worker(act)
    pid, _ = worker.ask(("return", 1), 30)
    with pytest.raises(isolate.ChildDiedError) as died:
        worker.ask(("die", signal.SIGSEGV), 30)
    assert died.value.signal_name == "SIGSEGV"
    assert worker.ask(("return", 2), 30)[0] != pid


def test_a_child_that_died_between_requests_is_replaced() -> None:
    worker = isolate.Worker(act)
    pid, _ = worker.ask(("return", 1), 30)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert worker.ask(("return", 2), 30)[1] == 2


def test_a_request_that_takes_too_long_is_ended() -> None:
    worker = isolate.Worker(act)
    pid, _ = worker.ask(("return", 1), 30)
    with pytest.raises(isolate.ChildTimeoutError):
        worker.ask(("sleep", 60), 0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert worker.ask(("return", 2), 30)[1] == 2


def test_a_child_is_replaced_before_it_grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "_REQUESTS", 2)
    worker = isolate.Worker(act)
    pids = [worker.ask(("return", 1), 30)[0] for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_a_fork_of_the_parent_gets_a_child_of_its_own() -> None:
    worker = isolate.Worker(act)
    pid, _ = worker.ask(("return", 1), 30)
    theirs, _ = isolate.call(lambda: worker.ask(("return", 2), 30), timeout_s=30)
    assert theirs != pid
    assert worker.ask(("return", 3), 30) == (pid, 3)


SCRIPT = """
import os
from torchneuron_backend.compiler import isolate
print(isolate.Worker(lambda request: os.getpid()).ask(1, 30), flush=True)
os._exit(0)
"""


def test_it_ends_with_its_parent() -> None:
    pid = int(run_python(SCRIPT).stdout)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the child is still there")


INTERPRETS = """
import multiprocessing.resource_tracker, torch
from torchneuron_backend.compiler import isolate

def interpret(_):
    graph = torch.fx.symbolic_trace(torch.nn.ReLU())
    return torch.fx.Interpreter(graph).run(torch.ones(1)).item()

# As in a process of a fork server, whose semaphores have names and are kept account of.
multiprocessing.set_start_method("forkserver")
multiprocessing.resource_tracker.ensure_running()
print(isolate.Worker(interpret).ask(1, 60), isolate.call(interpret, 1, timeout_s=60))
"""


def test_the_progress_bars_of_torch_fx_leave_no_semaphore_behind() -> None:
    done = run_python(INTERPRETS)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "1.0 1.0", "")


def emit_slowly(emit: Callable[[str, Any], None]) -> None:
    for number in range(4):
        time.sleep(0.2)
        emit("number", number)
    time.sleep(60)


def test_a_limit_for_each_message_ends_the_child_that_hangs_not_the_one_that_goes_on() -> None:
    messages = isolate.stream(emit_slowly, timeout_s=0.7, each=True)
    assert [next(messages).value for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(isolate.ChildTimeoutError):
        next(messages)
