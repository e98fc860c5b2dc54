"""Runs a plan in supervised worker processes and loses nothing when they die.

Every case runs in a process that the supervisor can end. A stage that outlives its deadline is
``timed_out``, a process that dies in a stage leaves that case ``crashed``, and in both cases the
rest of its batch goes on in a new process. Workers that die before their first case, several
times in a row, mean that the device is down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path

from harness import __version__
from harness.job import Job, ModelSettings
from harness.processes import describe_exit
from harness.profiles import Profile
from harness.progress import Progress
from harness.running import RunningWorker
from results.events import Ended, Event, EventLog, RunEnded, RunStarted, WorkerEnded, WorkerStarted
from results.layout import CACHE_DIR
from results.plan import EVENTS_DIR, Case, Plan
from results.vocabulary import CaseKind, Fate, Outcome, RunState

SUPERVISOR_LOG = "supervisor"
MAX_START_DEATHS = 3
_LOOK_SECONDS = 0.05


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
    ) -> None:
        """Take what a run is made of; ``folder`` is the run's, in a store."""
        self._plan = plan
        self._folder = folder
        self._compiler_cache = folder.parent.parent / CACHE_DIR / "compiler"
        self._profile = profile
        self._models = models
        self._environment = environment
        self._progress = progress
        self._queue = deque(batches(plan.cases, profile.batch))
        self._running: list[RunningWorker] = []
        self._started = 0
        self._start_deaths = 0
        self._last_words = ""

    def run(self) -> RunState:
        """Run every case; returns how the run ended."""
        with EventLog(self._folder / EVENTS_DIR / f"{SUPERVISOR_LOG}.jsonl") as self._log:
            self._write(
                RunStarted(
                    run=self._plan.run,
                    plan_hash=self._plan.hash,
                    planned=len(self._plan.cases),
                    device=self._plan.device,
                    profile=self._plan.profile,
                    harness_version=__version__,
                    environment=self._environment,
                )
            )
            state, reason = self._until_done()
            self._write(RunEnded(run=self._plan.run, state=state, reason=reason))
            return state

    def _until_done(self) -> tuple[RunState, str]:
        try:
            while self._queue or self._running:
                self._fill()
                wait([worker.process.sentinel for worker in self._running], timeout=_LOOK_SECONDS)
                for worker in list(self._running):
                    self._look_at(worker)
                self._progress.show(self._running)
                if self._start_deaths >= MAX_START_DEATHS:
                    self._abandon()
                    return RunState.DEVICE_DOWN, self._why_down()
        except KeyboardInterrupt:
            self._abandon()
            return RunState.INTERRUPTED, "interrupted from the keyboard"
        return RunState.COMPLETE, ""

    def _why_down(self) -> str:
        said = self._last_words.splitlines()[-1:]
        return f"{self._start_deaths} workers in a row died before their first case" + (
            f"; the last one said: {said[0]}" if said else ""
        )

    def _fill(self) -> None:
        workers = self._profile.worker_count
        while self._queue and len(self._running) < workers:
            cases = self._queue.popleft()
            job = Job(
                worker=f"worker-{self._started:05}",
                folder=self._folder,
                compiler_cache=self._compiler_cache,
                device=self._plan.device,
                cases=cases,
                attempt=1,
                threads=1,
                models=self._models,
            )
            self._started += 1
            worker = RunningWorker(job)
            self._running.append(worker)
            self._write(WorkerStarted(worker=job.worker, pid=worker.process.pid or 0, cases=len(cases)))

    def _look_at(self, worker: RunningWorker) -> None:
        """Take in a worker's events; end it if it is late, bury it if it is gone."""
        gone = worker.process.exitcode is not None
        self._progress.count(worker.advance())
        if not gone and worker.seconds_in_stage > self._profile.deadlines.of(worker.stage):
            worker.kill()
            self._progress.count(worker.advance())
            gone = True
        if gone:
            self._running.remove(worker)
            self._bury(worker)

    def _bury(self, worker: RunningWorker) -> None:
        """Record how a worker ended, what that means for its case, and queue what it left."""
        fate = worker.fate
        if worker.entered_any:
            self._start_deaths = 0
        elif fate is not Fate.FINISHED:
            self._start_deaths += 1
            self._last_words = worker.output_tail()
        if worker.entered is not None:
            self._end_case(worker)
        self._record_end(worker, fate)
        worker.process.close()
        remaining = worker.remaining()
        if remaining:
            self._queue.appendleft(remaining)

    def _end_case(self, worker: RunningWorker) -> None:
        entered = worker.entered
        assert entered is not None
        limit = self._profile.deadlines.of(entered.stage)
        if worker.killed:
            outcome, message = Outcome.TIMED_OUT, f"{entered.stage} took longer than {limit:g} s"
        else:
            outcome = Outcome.CRASHED
            message = f"the process died in {entered.stage}: {describe_exit(worker.process.exitcode)}"
        ended = Ended(
            case=entered.case,
            attempt=entered.attempt,
            stage=entered.stage,
            outcome=outcome,
            seconds=worker.seconds_in_stage,
            message=message,
            traceback=worker.output_tail(),
            facts={"worker": worker.job.worker},
        )
        self._write(ended)
        self._progress.count_end(ended)

    def _record_end(self, worker: RunningWorker, fate: Fate) -> None:
        code = worker.process.exitcode or 0
        entered = worker.entered
        self._write(
            WorkerEnded(
                worker=worker.job.worker,
                fate=fate,
                signal=max(-code, 0),
                exit_code=max(code, 0),
                case=entered.case if entered else "",
                stage=entered.stage if entered else "",
                output_tail="" if fate is Fate.FINISHED else worker.output_tail(),
            )
        )

    def _abandon(self) -> None:
        """End every worker without charging its case for it."""
        for worker in self._running:
            worker.kill()
            self._progress.count(worker.advance())
            self._record_end(worker, Fate.INTERRUPTED)
        self._running.clear()

    def _write(self, event: Event) -> None:
        self._log.write(event)


def batches(cases: Sequence[Case], size: int) -> list[tuple[Case, ...]]:
    """Group cases for processes: a model by itself, and first, since it takes longest; tests by ``size``."""
    models = [(case,) for case in cases if case.kind is CaseKind.MODEL]
    tests = [case for case in cases if case.kind is not CaseKind.MODEL]
    return models + [tuple(tests[i : i + size]) for i in range(0, len(tests), size)]
