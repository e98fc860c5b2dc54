"""The engine of one machine: a process of the fork server for each batch, watched and limited."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess

from harness import process_tree, processes, pytest_sessions, sandbox
from harness.cgroup import WorkerGroup, groups
from harness.child import ChildProcess
from harness.engine import NOBODYS_FAULT, OUTCOME_OF, Batch, BatchEnd
from harness.job import Job, run_job
from harness.limits import Excess, Limits, passed_deadline, passed_silence, passed_usage
from harness.oom import OomWatch
from harness.output import Output
from harness.standing import Standing, keep_refused
from harness.tail import appended
from results.events import CANNOT_LOG_EXIT, Ended, Entered, Record
from results.plan import OUTPUT_DIR
from results.vocabulary import CaseKind, Fate, Outcome, Stage

_USAGE_SECONDS = 0.5


class LocalEngine:
    """Runs batches as processes of this machine."""

    def __init__(self, workers: int, limits: Limits) -> None:
        self.slots = workers
        self._limits = limits
        self._groups = groups() if limits.memory else None

    def start(self, job: Job) -> Batch:
        """Start a job in a fresh process of the fork server."""
        group = self._groups.worker(job.worker, self._limits.memory) if self._groups else None
        try:
            return LocalBatch(job, self._limits, group)
        except BaseException:
            if group is not None:
                group.close()
            raise

    def wait(self, batches: Sequence[Batch], seconds: float) -> None:
        """Return when a process has ended, or after ``seconds``."""
        sentinels = [b.process.sentinel for b in batches if isinstance(b, LocalBatch)]
        wait([sentinel for sentinel in sentinels if sentinel >= 0], timeout=seconds)

    def close(self) -> None:
        """Nothing is held beyond the batches."""


Process = ForkServerProcess | ChildProcess


def _start(job: Job, output: Connection) -> Process:
    """pytest is a program of its own, and so is what locks itself in; other cases are forked."""
    if job.cases[0].kind is CaseKind.PYTEST:
        return pytest_sessions.start(job, output)
    if job.cases[0].spec.get(sandbox.REMOTE_CODE):
        return sandbox.start(job, output)
    return processes.start(run_job, job, output)


class LocalBatch:
    """A batch in a process of this machine. Times are this process's own monotonic clock."""

    def __init__(self, job: Job, limits: Limits, group: WorkerGroup | None = None) -> None:
        self.job = job
        self._group = group
        self.end: BatchEnd | None = None
        self._limits = limits
        self._standing = Standing(job)
        self._peak = 0
        self._excess: Excess | None = None
        self._oom = OomWatch()
        reader, writer = processes.context().Pipe(duplex=False)
        with writer:
            self.process = _start(job, writer)
        self._server = processes.server_pid()
        if group is not None:
            with contextlib.suppress(OSError):  # it is gone already
                group.take(self.process.pid or 0)
        self._output = Output(reader, job.folder / OUTPUT_DIR / f"{job.worker}.log")
        self._since = self._looked = time.monotonic()

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self.process.pid or 0

    @property
    def taken(self) -> int:
        """Bytes of its log that were looked at and can be right."""
        return self._standing.offset

    @property
    def now(self) -> str:
        """The case and stage it is in."""
        entered = self._standing.entered
        return f"{entered.case} {entered.stage}" if entered else ""

    @property
    def _seconds_in_stage(self) -> float:
        return time.monotonic() - self._since

    def look(self) -> list[Record]:
        """Take in what the worker wrote; end it if it has passed a limit, bury it if it is gone."""
        if self.end is not None:
            return []
        gone = self.process.exitcode is not None
        records = self._advance()
        if not gone:
            self._excess = self._passed()
            if self._excess is not None:
                self._kill()
                records += self._advance()
                gone = True
        if gone:
            self._bury(stopped=False)
        return records

    def stop(self) -> None:
        """End it, charging no case."""
        if self.end is None:
            self._kill()
            self._advance()
            self._bury(stopped=True)

    def _advance(self) -> list[Record]:
        records = self._standing.take(appended(self.job.log, self._standing.offset))
        if records:
            self._since = time.monotonic()
        return records

    def _passed(self) -> Excess | None:
        if self._standing.refused:
            return Excess(Fate.LOG_REFUSED, f"its worker's log cannot be right: {self._standing.refused}")
        entered = self._standing.entered
        late = passed_deadline(self._limits, entered.stage if entered else None, self._seconds_in_stage)
        if late is not None:
            return late
        heard = time.monotonic() - max(self._since, self._output.last_heard)
        silent = passed_silence(self._limits, heard)
        if silent is not None or time.monotonic() - self._looked < _USAGE_SECONDS:
            return silent
        self._looked = time.monotonic()
        used = process_tree.usage(self.pid, self._output.inode)
        self._peak = max(self._peak, used.memory)
        return passed_usage(self._limits, used.memory, used.processes)

    def _kill(self) -> None:
        self.process.kill()  # it may not lead its session yet
        process_tree.kill(self.pid, self._output.inode)
        self.process.join()

    def _bury(self, *, stopped: bool) -> None:
        code = self.process.exitcode or 0
        process_tree.kill(self.pid, self._output.inode)  # what it left behind
        if self._group is not None:
            self._peak = max(self._peak, self._group.peak)
            if code == -signal.SIGKILL and self._excess is None and self._group.oom_killed():
                self._excess = passed_usage(self._limits, max(self._peak, self._limits.memory + 1), 0)
            self._group.close()
        self._output.close()
        standing = self._standing
        if standing.refused:
            self._set_aside()
        fate = Fate.INTERRUPTED if stopped else self._fate(code)
        place = standing.place
        blamed = place is not None and fate not in NOBODYS_FAULT
        self.end = BatchEnd(
            fate=fate,
            signal=max(-code, 0),
            exit_code=max(code, 0),
            case=place.case if place else "",
            stage=place.stage if place else "",
            charged=self._charge(place, fate, code) if place and blamed else None,
            remaining=standing.left,
            interrupted=None if blamed else standing.under_way,
            entered_any=standing.entered_any,
            output_tail="" if fate is Fate.FINISHED else self._output.last_words(),
            peak_bytes=self._peak,
        )
        self.process.close()

    def _set_aside(self) -> None:
        """Cut a refused log to what stands; nobody may write it now."""
        with contextlib.suppress(FileNotFoundError):
            keep_refused(self.job, self.job.log.read_bytes())
            os.truncate(self.job.log, self._standing.offset)

    def _fate(self, code: int) -> Fate:
        if self._excess is not None:
            return self._excess.fate
        if self._standing.refused:
            return Fate.LOG_REFUSED
        if self._standing.done:
            return Fate.FINISHED if code in self._good_codes else Fate.DIED_AFTER_SUCCESS
        if code == CANNOT_LOG_EXIT:
            return Fate.DISK_FULL
        if code == processes.UNKNOWN_EXIT and not self._is_ours and not process_tree.is_alive(self._server):
            return Fate.LOST
        if code == -signal.SIGKILL and self._oom.killed():
            return Fate.OOM_KILLED
        if not self._standing.entered_any:
            collecting = self.job.cases[0].kind is CaseKind.PYTEST
            return Fate.DIED_AT_COLLECTION if collecting else Fate.DIED_AT_START
        return Fate.SIGNALLED if code < 0 else Fate.EXITED

    @property
    def _is_ours(self) -> bool:
        """Whether it is a child of this process, which no fork server stands between."""
        return isinstance(self.process, ChildProcess)

    @property
    def _good_codes(self) -> frozenset[int]:
        """pytest's exit code also says how the tests came out, which is no matter of the process."""
        if self.job.cases[0].kind is CaseKind.PYTEST:
            return pytest_sessions.GOOD_CODES
        return frozenset({0})

    def _charge(self, place: Entered, fate: Fate, code: int) -> Ended:
        if self._excess is not None:
            message = self._excess.message
        elif fate is Fate.OOM_KILLED:
            message = f"the kernel killed the process in {place.stage} because memory had run out"
        elif fate is Fate.LOG_REFUSED:
            message = f"its worker's log cannot be right: {self._standing.refused}"
        else:
            where = "in" if self._standing.entered else "on its way to"
            message = f"the process died {where} {place.stage}: {processes.describe_exit(code)}"
        return Ended(
            case=place.case,
            attempt=place.attempt,
            stage=place.stage,
            outcome=_outcome_of(fate, place.stage),
            seconds=self._seconds_in_stage,
            message=message,
            traceback=self._output.last_words(),
            facts={"worker": self.job.worker, "fate": fate.value},
        )


def _outcome_of(fate: Fate, stage: Stage) -> Outcome:
    """What an end makes of the case; a hub that takes too long is no fault of the device."""
    if stage is Stage.FETCH and fate in (Fate.KILLED_AT_DEADLINE, Fate.SILENT):
        return Outcome.INFRA_ERROR
    return OUTCOME_OF.get(fate, Outcome.CRASHED)
