"""Workers without torch that hurt themselves, each case as the last word of its id says."""

from __future__ import annotations

import contextlib
import ctypes
import gzip
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from harness.job import Job
from harness.processes import become_worker
from results.events import CANNOT_LOG_EXIT, Ended, Entered, EventLog, LogWriteError
from results.plan import Case
from results.vocabulary import Outcome, Stage

MIB = 1 << 20
OUTPUT_BYTES = 1024 * MIB
BALLAST = "ballast"
"""File in the run's folder that takes all the room."""
CHILDREN = "children"
"""File in the run's folder with the process ids of what the workers started."""

_EARLIER: list[str] = []
_WELL: list[bool] = []
_LEAVE: list[Callable[[], object]] = []
Result = Mapping[str, Any]


def misbehave(job: Job, output: Connection) -> None:
    """Runs each case as the real worker does: announced, run, recorded."""
    become_worker(output)
    for case in job.cases:
        before(case)
    try:
        with EventLog(job.log) as log:
            for case in job.cases:
                for stage in case.stages:
                    log.write(Entered(case=case.id, attempt=job.attempt, stage=stage))
                    result = act(word(case), job, log, stage)
                    log.write(ended(case, job.attempt, stage, result or {}))
                    if word(case) == "dies_between_stages" and stage is Stage.LOAD:
                        os._exit(9)
    except LogWriteError as error:
        print(error, file=sys.stderr)
        sys.exit(CANNOT_LOG_EXIT)
    for leave in _LEAVE:
        leave()


def misbehave_well(job: Job, output: Connection) -> None:
    """The same on a device that is there again."""
    _WELL.append(True)
    misbehave(job, output)


def word(case: Case) -> str:
    """What a case does: the last word of its id, without its variant or revision."""
    return re.split(r"[\[@]", re.split("::|/", case.id)[-1])[0]


def ended(case: Case, attempt: int, stage: Stage, result: Result) -> Ended:
    """The end of a stage, passed unless the result says otherwise."""
    fields = {"outcome": Outcome.PASSED, "seconds": 0.01, **result}
    return Ended(case=case.id, attempt=attempt, stage=stage, **fields)


def before(case: Case) -> None:
    """What some cases do to their process before it has announced anything."""
    if _WELL:
        return
    if word(case) == "hangs_at_import":
        time.sleep(1000)
    if word(case) == "dies_at_import":
        sys.exit("no module named nonesuch")


def act(what: str, job: Job, log: EventLog, stage: Stage) -> Result | None:
    """Do one thing."""
    for table in (_DEATHS, _HANGS, _CHILDREN, _EXITS):
        if what in table:
            table[what](job)
            return None
    if what in _RESULTS:
        return _RESULTS[what]
    if what in _LOGS:
        return _LOGS[what](job, log)
    return _ATTEMPTS[what](job) if what in _ATTEMPTS else None


def failed(message: str, **fields: Any) -> Result:
    """A failure with a message."""
    return {"outcome": Outcome.FAILED_EXCEPTION, "exception": "RuntimeError", "message": message, **fields}


# deaths


def _dereference_null(_: Job) -> None:
    ctypes.string_at(1)


def _raise(_: Job) -> None:
    raise RuntimeError("the worker itself raises")


def _hold_memory(_: Job) -> None:
    held = []
    while True:
        held.append(bytearray(os.urandom(4 * MIB)))
        time.sleep(0.01)


def _hold_memory_in_child(job: Job) -> None:
    if os.fork() == 0:
        _hold_memory(job)
    time.sleep(1000)


def _sigkill(_: Job) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


_DEATHS: Mapping[str, Callable[[Job], object]] = {
    "segfaults": _dereference_null,
    "aborts": lambda _: os.abort(),
    "sigkills": _sigkill,
    "exits_3": lambda _: os._exit(3),
    "exits_0": lambda _: os._exit(0),
    "exits_255": lambda _: os._exit(255),
    "raises": _raise,
    "holds_memory": _hold_memory,
    "holds_memory_in_a_child": _hold_memory_in_child,
}


# hangs


def _hang_in_c(_: Job) -> None:
    ctypes.PyDLL(None).sleep(1000)  # the GIL stays held: no Python thread of this process runs again


def _hang_printing(_: Job) -> None:
    while True:
        print("still here", flush=True)
        time.sleep(0.05)


def _hang_deaf(_: Job) -> None:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1000)


def _take_long(job: Job) -> None:
    """Longer than any test waits, the first time; then it passes."""
    if job.attempt == 1:
        time.sleep(1000)


_HANGS: Mapping[str, Callable[[Job], object]] = {
    "hangs": lambda _: time.sleep(1000),
    "hangs_in_c": _hang_in_c,
    "hangs_printing": _hang_printing,
    "hangs_deaf": _hang_deaf,
    "stops": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "takes_a_while": lambda _: time.sleep(0.5),
    "takes_long": _take_long,
}


# the disk


def _fill_disk(job: Job) -> Result | None:
    """Leaves no room, the first time; then it has more to say than the log's last page can take."""
    if job.attempt > 1:
        return None
    with (job.folder / BALLAST).open("wb", buffering=0) as file:
        for size in (MIB, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    return {"message": "x" * 20_000}


# children


def _note_child(job: Job) -> None:
    with (job.folder / CHILDREN).open("a") as file:
        file.write(f"{os.getpid()}\n")


def _leave_child(job: Job) -> None:
    if os.fork() == 0:
        _note_child(job)
        time.sleep(1000)
        os._exit(0)
    _wait_for_note(job)


def _leave_daemon(job: Job) -> None:
    """The classic one: two forks and a session of its own; nobody's child, in nobody's session."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _note_child(job)
            time.sleep(1000)
        os._exit(0)
    os.wait()
    _wait_for_note(job)


def _wait_for_note(job: Job) -> None:
    while not (job.folder / CHILDREN).exists() or not (job.folder / CHILDREN).read_text().endswith("\n"):
        time.sleep(0.005)


def _fork_bomb(job: Job) -> None:
    for _ in range(200):  # bounded in case the harness is not up to it
        if os.fork() == 0:
            _note_child(job)
            time.sleep(1000)
            os._exit(0)
        time.sleep(0.005)
    time.sleep(1000)


_CHILDREN: Mapping[str, Callable[[Job], object]] = {
    "leaves_child": _leave_child,
    "leaves_daemon": _leave_daemon,
    "fork_bombs": _fork_bomb,
}


# ends after the last case


_EXITS: Mapping[str, Callable[[Job], object]] = {
    "exits_7_at_exit": lambda _: _LEAVE.append(lambda: os._exit(7)),
    "segfaults_at_exit": lambda _: _LEAVE.append(lambda: ctypes.string_at(1)),
    "hangs_at_exit": lambda _: _LEAVE.append(lambda: time.sleep(1000)),
}


# results


HOSTILE = "\x1b[31mred\x07 \x00nul \ud800lone \udfff \u202e\r\n\ufffe fin"

_RESULTS: Mapping[str, Result] = {
    "fails": failed("it is broken"),
    "has_no_numbers": {
        "metrics": {"nan": float("nan"), "up": float("inf"), "down": -float("inf"), "tiny": 5e-324}
    },
    "has_a_long_message": failed("x" * 10 * MIB, traceback="y" * 10 * MIB),
    "has_a_hostile_message": failed(HOSTILE, traceback=HOSTILE, facts={HOSTILE: HOSTILE}),
    "device_memory": {
        "outcome": Outcome.OUT_OF_MEMORY,
        "exception": "torch.OutOfMemoryError",
        "message": "m",
    },
}


# logs


def _write_much(job: Job, _: EventLog) -> None:
    block = os.urandom(MIB)  # which cannot be compressed, so that the bound of what is kept is reached
    for _ in range(OUTPUT_BYTES // len(block)):
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(1, rest) :]


def _print_bytes(_: Job, __: EventLog) -> Result:
    os.write(1, b"\xff\xfe\x80 not text \x1b[2J\x00\n" + gzip.compress(b"x" * 1000))
    os._exit(3)


def _write_garbage(_: Job, log: EventLog) -> None:
    with log.path.open("ab") as file:
        file.write(b'{"v":1,"seq":\x00 a stray write\n')


def _another_case(job: Job, log: EventLog) -> None:
    log.write(
        Ended(
            case="opinfo::f::c::of_nobody", attempt=1, stage=Stage.TEST, outcome=Outcome.PASSED, seconds=0.0
        )
    )


def _another_workers_case(job: Job, log: EventLog) -> None:
    log.write(
        Ended(case="opinfo::f::c::z_passes", attempt=1, stage=Stage.TEST, outcome=Outcome.PASSED, seconds=0.0)
    )


def _two_results(job: Job, log: EventLog) -> None:
    case = next(case for case in job.cases if word(case) == "says_it_twice")
    log.write(ended(case, job.attempt, Stage.TEST, {"outcome": Outcome.FAILED_NUMERIC}))


_LOGS: Mapping[str, Callable[[Job, EventLog], Result | None]] = {
    "writes_much": _write_much,
    "prints_bytes": _print_bytes,
    "writes_garbage": _write_garbage,
    "speaks_for_nobody": _another_case,
    "speaks_for_another": _another_workers_case,
    "says_it_twice": _two_results,
}


# attempts


def _disturbed(_: Job) -> Result | None:
    return failed("somebody was here") if _EARLIER else None


def _fail_once(job: Job) -> Result | None:
    try:
        (job.folder / "failed").touch(exist_ok=False)
    except FileExistsError:
        return None
    return failed("not yet")


_COMES_AND_GOES = "1011"
"""Whether the case fails in the first process that runs it, the second, and so on; afterwards it passes."""


def _come_and_go(job: Job) -> Result | None:
    with (job.folder / "comes_and_goes").open("a+") as file:
        file.write(".")
        turn = file.tell() - 1
    return failed("now and then") if _COMES_AND_GOES[turn : turn + 1] == "1" else None


_ATTEMPTS: Mapping[str, Callable[[Job], Result | None]] = {
    "z_comes_and_goes": _come_and_go,
    "fails_once": _fail_once,
    "fills_the_disk": _fill_disk,
    "disturbs": lambda _: _EARLIER.append("here"),
    "z_is_disturbed": _disturbed,
}
