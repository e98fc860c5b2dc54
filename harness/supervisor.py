"""Runs a plan on an engine and loses nothing when processes, or it itself, are killed.

A stage that passes a limit is ended, a process that dies in a stage leaves that case ``crashed``, and
in both cases the rest of its batch goes on in a new process. Unexpected failures are repeated alone.
Workers that die before their first case, several times in a row, mean that the device is down. A run
that was cut short goes on where its logs end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import __version__
from harness.engine import Batch, BatchEnd, Engine
from harness.errors import HarnessError
from harness.evidence import runs
from harness.history import History
from harness.job import Job, ModelSettings
from harness.profiles import Profile
from harness.progress import Progress
from harness.recovery import (
    SUPERVISOR_LOG,
    LeftWorker,
    Recovered,
    end_orphans,
    recover,
    take_over,
    unfinished,
    workers_left,
)
from harness.schedule import Schedule, Task, declared_skips, skipped
from harness.signals import StopSignals
from results.events import (
    NO_ROOM,
    Ended,
    Event,
    EventLog,
    LogWriteError,
    RunEnded,
    RunStarted,
    WorkerEnded,
    WorkerStarted,
)
from results.layout import CACHE_DIR
from results.logs import find_log
from results.plan import EVENTS_DIR, EXPERIMENTS_DIR, Plan
from results.vocabulary import CaseKind, Fate, RunState

MAX_START_DEATHS = 3
_LOOK_SECONDS = 0.05


class Stop(Exception):
    """The run shall stop now, in good order; the message says why."""


class Supervisor:
    """Runs one plan to its end; see the module's text for what it guarantees."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        profile: Profile,
        models: ModelSettings,
        environment: Mapping[str, str],
        progress: Progress,
        engine: Engine,
        history: History | None = None,
        suite_environment: Mapping[str, str] | None = None,
    ) -> None:
        """Take what a run is made of; ``folder`` is the run's, in a store, and holds its plan."""
        self._plan = plan
        self._folder = folder
        self._profile = profile
        self._models = models
        self._environment = environment
        self._progress = progress
        self._engine = engine
        self._history = history or History()
        self._suite_environment = suite_environment or {}
        self._running: list[tuple[Task, Batch]] = []
        self._start_deaths = 0
        self._last_words = ""

    def run(self) -> tuple[RunState, str]:
        """Run every case that has no result yet; returns how the run ended, and why if not by itself.

        Raises:
            EventLogError: the run was begun before, and its logs are damaged.
            LogWriteError: the run's own log cannot be opened.
        """
        left = workers_left(self._folder)
        end_orphans(left)  # first, so that none writes while its log is read
        found = recover(self._plan, self._folder)
        self._started = found.workers
        resumed = find_log(self._folder / EVENTS_DIR / f"{SUPERVISOR_LOG}.jsonl") is not None
        with (
            EventLog(self._folder / EVENTS_DIR / f"{SUPERVISOR_LOG}.jsonl") as self._log,
            StopSignals() as stop,
        ):
            try:
                self._begin(found, left, resumed)
                state, reason = self._until_done(stop)
            except (Stop, HarnessError) as why:
                state, reason = RunState.INTERRUPTED, str(why)
            except LogWriteError as error:
                state, reason = RunState.INTERRUPTED, f"{error.strerror}; make room where the store is"
            finally:
                self._abandon()
            with contextlib.suppress(LogWriteError):  # without room for it, the run counts as cut short
                self._write(RunEnded(run=self._plan.run, state=state, reason=reason))
        return state, reason

    def _begin(self, found: Recovered, left: Sequence[LeftWorker], resumed: bool) -> None:
        for started, _ in left:
            self._write(WorkerEnded(worker=started.worker, fate=Fate.INTERRUPTED))
        self._write(
            RunStarted(
                run=self._plan.run,
                plan_hash=self._plan.hash,
                planned=len(self._plan.cases),
                device=self._plan.device,
                profile=self._plan.profile,
                harness_version=__version__,
                environment=self._environment,
                resumed=resumed,
            )
        )
        left_out, to_run = declared_skips(unfinished(self._plan, found))
        self._schedule = Schedule(to_run, self._profile.rules, self._history)
        for event in take_over(self._schedule, self._plan, found):
            self._write(event)
            self._progress.count_end(event)
        ended = ((case.id, found.finished(case)) for case in self._plan.cases if runs(case))
        self._progress.skip({case: outcome for case, outcome in ended if outcome is not None})
        for case in left_out:
            event = skipped(case)
            self._write(event)
            self._progress.count_end(event)

    def _until_done(self, stop: StopSignals) -> tuple[RunState, str]:
        while self._running or not self._schedule.empty:
            if stop.reason:
                raise Stop(stop.reason)
            self._fill()
            self._engine.wait([batch for _, batch in self._running], _LOOK_SECONDS)
            for task, batch in list(self._running):
                self._look_at(task, batch)
            self._progress.show([batch for _, batch in self._running])
            if self._start_deaths >= MAX_START_DEATHS:
                return RunState.DEVICE_DOWN, self._why_down()
        return RunState.COMPLETE, ""

    def _why_down(self) -> str:
        said = self._last_words.splitlines()[-1:]
        return f"{self._start_deaths} workers in a row died before their first case" + (
            f"; the last one said: {said[0]}" if said else ""
        )

    def _fill(self) -> None:
        while len(self._running) < self._engine.slots:
            task = self._schedule.next()
            if task is None:
                return
            job = Job(
                worker=f"worker-{self._started:05}",
                folder=self._folder,
                events=EXPERIMENTS_DIR if task.bisection else EVENTS_DIR,
                compiler_cache=self._folder.parent.parent / CACHE_DIR / "compiler",
                device=self._plan.device,
                cases=task.cases,
                attempt=task.attempt,
                threads=1,
                models=self._models,
                environment=self._suite_environment,
            )
            self._started += 1
            try:
                batch = self._engine.start(job)
            except (HarnessError, OSError, EOFError) as error:  # the fork server died under us, perhaps
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    raise Stop(
                        f"no worker could be started: {error}; make room where the store is"
                    ) from error
                self._write(WorkerStarted(worker=job.worker, pid=0, cases=len(task.cases)))
                self._bury(task, job, BatchEnd(
                    fate=Fate.DIED_AT_START, remaining=task.cases, entered_any=False,
                    output_tail=f"no process could be started: {error}",
                ))  # fmt: skip
                return
            self._running.append((task, batch))
            self._write(WorkerStarted(worker=job.worker, pid=batch.pid, cases=len(task.cases)))

    def _look_at(self, task: Task, batch: Batch) -> None:
        """Take in what a batch logged, and its end."""
        for record in batch.look():
            if isinstance(record.event, Ended):
                self._took(task, record.event)
        end = batch.end
        if end is not None:
            self._running.remove((task, batch))
            self._bury(task, batch.job, end)

    def _took(self, task: Task, event: Ended) -> None:
        self._schedule.took(task, event)
        if task.bisection is None:
            self._progress.count_end(event)

    def _bury(self, task: Task, job: Job, end: BatchEnd) -> None:
        """Record how a batch ended, what that means for its case, and queue what it left."""
        if end.entered_any:
            self._start_deaths = 0
        elif end.fate in (Fate.DIED_AT_START, Fate.LOST) or (
            end.fate not in (Fate.FINISHED, Fate.INTERRUPTED) and job.cases[0].kind is not CaseKind.PYTEST
        ):
            self._start_deaths += 1
            self._last_words = end.output_tail
        if end.charged is not None:
            if task.bisection is None:
                self._write(end.charged)
            self._took(task, end.charged)
        self._record_end(job, end)
        for event in self._schedule.over(task, end):
            self._write(event)
            if isinstance(event, Ended):
                self._progress.count_end(event)
        if end.fate is Fate.DISK_FULL:
            raise Stop(f"{job.worker} could not write its log; make room where the store is")

    def _record_end(self, job: Job, end: BatchEnd) -> None:
        self._write(
            WorkerEnded(
                worker=job.worker,
                fate=end.fate,
                signal=end.signal,
                exit_code=end.exit_code,
                case=end.case,
                stage=end.stage,
                output_tail=end.output_tail,
                peak_bytes=end.peak_bytes,
            )
        )

    def _abandon(self) -> None:
        """End every batch without charging its case for it; one that cannot be ended spares no other."""
        with contextlib.ExitStack() as ending:
            ending.callback(self._engine.close)
            ending.callback(self._running.clear)
            for _, batch in reversed(self._running):
                ending.callback(self._stop, batch)

    def _stop(self, batch: Batch) -> None:
        batch.stop()
        if batch.end is not None:
            with contextlib.suppress(LogWriteError):
                self._record_end(batch.job, batch.end)

    def _write(self, event: Event) -> None:
        self._log.write(event)
