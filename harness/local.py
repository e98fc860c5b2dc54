"""The engine of one machine: a process of the fork server for each batch, watched and limited."""

from __future__ import annotations

import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess

import psutil

from harness import process_tree, processes
from harness.engine import Batch, BatchEnd
from harness.following import Following
from harness.job import Job, run_job
from harness.limits import Excess, Limits, passed_deadline, passed_silence, passed_usage
from harness.oom import OomWatch
from harness.output import Output
from harness.tail import LogTail
from results.events import Ended, Entered, Record
from results.plan import OUTPUT_DIR
from results.vocabulary import Fate, Outcome, Stage

_USAGE_SECONDS = 0.5


class LocalEngine:
    """Runs batches as processes of this machine."""

    def __init__(self, workers: int, limits: Limits) -> None:
        self.slots = workers
        self._limits = limits

    def start(self, job: Job) -> Batch:
        """Start a job in a fresh process of the fork server."""
        return LocalBatch(job, self._limits)

    def wait(self, batches: Sequence[Batch], seconds: float) -> None:
        """Return when a process has ended, or after ``seconds``."""
        wait([b.process.sentinel for b in batches if isinstance(b, LocalBatch)], timeout=seconds)

    def close(self) -> None:
        """Nothing is held beyond the batches."""


class LocalBatch:
    """A batch in a process of this machine. Times are this process's own monotonic clock."""

    def __init__(self, job: Job, limits: Limits) -> None:
        self.job = job
        self.end: BatchEnd | None = None
        self._limits = limits
        self._following = Following(job.cases)
        self._tail = LogTail(job.log)
        self._peak = 0
        self._excess: Excess | None = None
        self._oom = OomWatch()
        reader, writer = processes.context().Pipe(duplex=False)
        self.process: ForkServerProcess = processes.start(run_job, job, writer)
        writer.close()
        self._server = processes.server_pid()
        self._output = Output(reader, job.folder / OUTPUT_DIR / f"{job.worker}.log")
        self._since = self._looked = time.monotonic()

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self.process.pid or 0

    @property
    def now(self) -> str:
        """The case and stage it is in."""
        return f"{self._entered.case} {self._entered.stage}" if self._entered else ""

    @property
    def _entered(self) -> Entered | None:
        return self._following.entered

    @property
    def _stage(self) -> Stage | None:
        return self._entered.stage if self._entered else None

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
        records = self._tail.new()
        self._following.take(records)
        if records:
            self._since = time.monotonic()
        return records

    def _passed(self) -> Excess | None:
        late = passed_deadline(self._limits, self._stage, self._seconds_in_stage)
        if late is not None:
            return late
        heard = time.monotonic() - max(self._since, self._output.last_heard)
        silent = passed_silence(self._limits, heard)
        if silent is not None or time.monotonic() - self._looked < _USAGE_SECONDS:
            return silent
        self._looked = time.monotonic()
        used = process_tree.usage(self.pid)
        self._peak = max(self._peak, used.memory)
        return passed_usage(self._limits, used.memory, used.processes)

    def _kill(self) -> None:
        process_tree.kill(self.pid)
        processes.kill_tree(self.process)

    def _bury(self, *, stopped: bool) -> None:
        code = self.process.exitcode or 0
        process_tree.kill(self.pid)  # what it left behind
        self._output.close()
        fate = Fate.INTERRUPTED if stopped else self._fate(code)
        entered = self._entered
        blamed = entered is not None and fate not in NOBODYS_FAULT
        under_way = self._following.under_way
        self.end = BatchEnd(
            fate=fate,
            signal=max(-code, 0),
            exit_code=max(code, 0),
            case=under_way.id if under_way else "",
            stage=self._following.stage or "",
            charged=self._charge(entered, fate, code) if entered and blamed else None,
            remaining=self._following.left,
            interrupted=None if blamed else under_way,
            entered_any=self._following.entered_any,
            output_tail="" if fate is Fate.FINISHED else self._output.last_words(),
            peak_bytes=self._peak,
        )
        self.process.close()

    def _fate(self, code: int) -> Fate:
        if self._excess is not None:
            return self._excess.fate
        if self._following.done:
            return Fate.FINISHED if code == 0 else Fate.DIED_AFTER_SUCCESS
        if code == processes.DISK_FULL_EXIT:
            return Fate.DISK_FULL
        if code == processes.UNKNOWN_EXIT and not psutil.pid_exists(self._server):
            return Fate.LOST
        if code == -9 and self._oom.killed():
            return Fate.OOM_KILLED
        if not self._following.entered_any:
            return Fate.DIED_AT_START
        return Fate.SIGNALLED if code < 0 else Fate.EXITED

    def _charge(self, entered: Entered, fate: Fate, code: int) -> Ended:
        if self._excess is not None:
            message = self._excess.message
        elif fate is Fate.OOM_KILLED:
            message = f"the kernel killed the process in {entered.stage} because memory had run out"
        else:
            message = f"the process died in {entered.stage}: {processes.describe_exit(code)}"
        return Ended(
            case=entered.case,
            attempt=entered.attempt,
            stage=entered.stage,
            outcome=OUTCOME_OF.get(fate, Outcome.CRASHED),
            seconds=self._seconds_in_stage,
            message=message,
            traceback=self._output.last_words(),
            facts={"worker": self.job.worker, "fate": fate.value},
        )


NOBODYS_FAULT = frozenset({Fate.INTERRUPTED, Fate.DISK_FULL, Fate.LOST})
"""Fates for which the case that was running is not to blame; it runs again."""

OUTCOME_OF = {
    Fate.KILLED_AT_DEADLINE: Outcome.TIMED_OUT,
    Fate.SILENT: Outcome.TIMED_OUT,
    Fate.MEMORY_LIMIT: Outcome.OUT_OF_MEMORY,
    Fate.OOM_KILLED: Outcome.OUT_OF_MEMORY,
}
"""What a fate makes of the case that was running; all others leave it ``crashed``."""
