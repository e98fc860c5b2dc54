"""The supervisor itself is killed or told to stop; ``harness resume`` finishes what it left."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

import results
from harness.supervisor import Supervisor
from results.events import EventLog, RunEnded, WorkerEnded, read_log
from results.vocabulary import Fate, RunState
from tests.faults.conftest import MakeRun
from tests.faults.runs import RUN, SmallRun, account_for, alive, attempts_of, finish, wait_until


def until_inside(run: SmallRun, process: subprocess.Popen[str], name: str) -> int:
    """Wait until a worker of a running command is in a case; its process number."""
    wait_until(lambda: run.inside(name) or process.poll() is not None)
    assert process.poll() is None, process.communicate()[0]
    return run.inside(name)


def resume(run: SmallRun) -> str:
    code, output = finish(run.command())
    assert code == 0, output
    return output


def test_a_killed_supervisor_loses_no_case_and_doubles_none(make_run: MakeRun) -> None:
    names = [f"a_passes[{i:02}]" for i in range(5)] + ["hangs"] + [f"z_passes[{i}]" for i in range(5)]
    run = make_run(*names, batch=4)
    process = run.command()
    worker = until_inside(run, process, "hangs")
    process.kill()
    process.wait()
    wait_until(lambda: not alive(worker))
    before = {log: log.read_bytes() for log in (run.folder / "events").glob("worker-*.jsonl")}
    process = run.command()
    again = until_inside(run, process, "hangs")
    assert again != worker
    os.kill(again, signal.SIGKILL)
    code, output = finish(process)
    assert code == 1, output
    account_for(run, {"hangs": "crashed"}, [(Fate.INTERRUPTED, ""), (Fate.SIGNALLED, "hangs")])
    for log, data in before.items():
        assert log.read_bytes() == data, "what was done before is not touched"
    for name in set(names) - {"hangs"}:
        assert attempts_of(run, name) == ["passed"]


def test_what_a_killed_supervisors_workers_had_started_is_ended_by_resume(make_run: MakeRun) -> None:
    run = make_run("a_passes", "leaves_child", "takes_long", "z_passes")
    process = run.command()
    worker = until_inside(run, process, "takes_long")
    process.kill()
    process.wait()
    wait_until(lambda: not alive(worker))
    (child,) = run.children()
    assert alive(child), "Linux ends the worker with its supervisor, but not the worker's child"
    resume(run)
    assert not alive(child)
    account_for(run, {}, [(Fate.INTERRUPTED, "")])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_stops_a_run_in_good_order_and_it_can_be_resumed(
    make_run: MakeRun, number: signal.Signals
) -> None:
    run = make_run("a_passes", "takes_long", "z_passes")
    process = run.command()
    worker = until_inside(run, process, "takes_long")
    os.kill(process.pid, number)
    code, output = finish(process)
    assert code == 3, output
    how = "interrupted from the keyboard" if number == signal.SIGINT else f"stopped by {number.name}"
    assert f"it ended interrupted: {how}; go on with `" in output
    assert f"resume {RUN} --store " in output
    assert "Traceback" not in output
    assert not alive(worker)
    account_for(
        run, {"takes_long": "not_run", "z_passes": "not_run"}, [(Fate.INTERRUPTED, "takes_long")],
        complete=False,
    )  # fmt: skip
    resume(run)
    account_for(run, {}, [(Fate.INTERRUPTED, "takes_long")])
    assert attempts_of(run, "takes_long") == ["passed"]


def test_a_signal_in_the_middle_of_writing_a_record_tears_nothing(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("a_passes", "z_passes")
    write = Supervisor._write

    def interrupted(self: Supervisor, event: object) -> None:
        if isinstance(event, WorkerEnded):
            log = self._log._file

            class Interrupting:
                """A file whose writer is sent a signal just after the bytes have gone out."""

                def write(self, data: bytes) -> int:
                    written = log.write(data)
                    os.kill(os.getpid(), signal.SIGTERM)
                    return written

                def __getattr__(self, name: str) -> object:
                    return getattr(log, name)

            self._log._file = Interrupting()  # type: ignore[assignment]
        write(self, event)  # type: ignore[arg-type]

    monkeypatch.setattr(Supervisor, "_write", interrupted)
    run.supervise()
    events = [record.event for record in read_log(run.folder / "events" / "supervisor.jsonl")]
    assert isinstance(events[-1], RunEnded)


def test_nohup_is_respected(make_run: MakeRun) -> None:
    run = make_run("a_passes", "takes_a_while", "z_passes")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = run.command()
    finally:
        signal.signal(signal.SIGHUP, before)
    until_inside(run, process, "takes_a_while")
    os.kill(process.pid, signal.SIGHUP)
    code, output = finish(process)
    assert code == 0, output
    account_for(run, {}, [])


def test_two_supervisors_of_one_run_are_one_too_many_and_a_dead_one_holds_no_lock(make_run: MakeRun) -> None:
    run = make_run("a_passes", "takes_long", "z_passes")
    first = run.command()
    until_inside(run, first, "takes_long")
    code, output = finish(run.command())
    assert code == 2
    assert f"run {RUN} is being supervised by process {first.pid}; wait for it or stop it first" in output
    assert "Traceback" not in output
    first.kill()
    first.wait()
    resume(run)
    account_for(run, {}, [(Fate.INTERRUPTED, "")])


def test_a_case_under_way_in_three_killed_supervisors_is_given_up(make_run: MakeRun) -> None:
    run = make_run("a_passes", "hangs", "z_passes")
    for _ in range(3):
        process = run.command()
        worker = until_inside(run, process, "hangs")
        process.kill()
        process.wait()
        wait_until(lambda worker=worker: not alive(worker))
    code, output = finish(run.command())
    assert code == 3, output
    account_for(run, {"hangs": "infra_error"}, [(Fate.INTERRUPTED, "")] * 3)
    with results.open(run.store) as store:
        assert store.rows("v_verdicts", run=RUN, verdict="incomplete")[0]["cases"] == 1


def test_a_worker_that_was_never_announced_keeps_its_log_to_itself(make_run: MakeRun) -> None:
    run = make_run("a_passes", "z_passes", batch=1)
    run.plan.save(run.folder)
    from tests.faults.test_logs import ended

    with EventLog(run.folder / "events" / "worker-00000.jsonl") as log:
        log.write(ended("a_passes"))
    unannounced = log.path.read_bytes()
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {}, [])
    assert log.path.read_bytes() == unannounced
    assert attempts_of(run, "a_passes") == ["passed"]
