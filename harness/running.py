"""A worker process as the supervisor sees it: what it is in, since when, and how it ended."""

from __future__ import annotations

import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from harness import processes
from harness.job import Job, run_job
from harness.tail import LogTail
from results.events import Ended, Entered, Record
from results.plan import EVENTS_DIR, OUTPUT_DIR, Case
from results.vocabulary import Fate, Outcome, Stage

_TAIL_BYTES = 4000


class RunningWorker:
    """Follows one worker by its event log. Times are the supervisor's own monotonic clock."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.entered: Entered | None = None
        self.entered_any = False
        self.killed = False
        self._finished: set[str] = set()
        self._tail = LogTail(job.folder / EVENTS_DIR / f"{job.worker}.jsonl")
        self.process: ForkServerProcess = processes.start(run_job, job)
        self._since = time.monotonic()

    def advance(self) -> list[Record]:
        """Take in what the worker has written; return it."""
        records = self._tail.new()
        for record in records:
            event = record.event
            if isinstance(event, Entered):
                self.entered, self.entered_any = event, True
            elif isinstance(event, Ended):
                self.entered = None
                self._note_end(event)
            self._since = time.monotonic()
        return records

    def _note_end(self, event: Ended) -> None:
        case = next(case for case in self.job.cases if case.id == event.case)
        if event.outcome is not Outcome.PASSED or event.stage is case.stages[-1]:
            self._finished.add(event.case)

    @property
    def stage(self) -> Stage | None:
        """The stage it is in, ``None`` before the first case and between two."""
        return self.entered.stage if self.entered else None

    @property
    def seconds_in_stage(self) -> float:
        """Seconds since it last wrote anything."""
        return time.monotonic() - self._since

    def kill(self) -> None:
        """End the worker and everything it started."""
        self.killed = True
        processes.kill_tree(self.process)

    def remaining(self) -> tuple[Case, ...]:
        """Cases of the job that nothing is known of: neither finished nor the one it died in."""
        lost = self.entered.case if self.entered else None
        return tuple(c for c in self.job.cases if c.id not in self._finished and c.id != lost)

    @property
    def fate(self) -> Fate:
        """How it ended; ask once the process is gone and its log has been read."""
        code = self.process.exitcode
        done = not self.remaining() and self.entered is None
        if self.killed:
            return Fate.KILLED_AT_DEADLINE
        if done:
            return Fate.FINISHED if code == 0 else Fate.DIED_AFTER_SUCCESS
        if not self.entered_any:
            return Fate.DIED_AT_START
        return Fate.SIGNALLED if code is not None and code < 0 else Fate.EXITED

    def output_tail(self) -> str:
        """The last lines the worker printed."""
        return read_tail(self.job.folder / OUTPUT_DIR / f"{self.job.worker}.log")


def read_tail(path: Path) -> str:
    """The last few kilobytes of a text file, ``""`` if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
