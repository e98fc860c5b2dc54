"""Workers for benchmarks/harness.py: real ones in all but what their cases do."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from harness.job import Job
from harness.processes import become_worker
from results.events import Ended, Entered, EventLog
from results.vocabulary import Outcome


def idle(job: Job, output: Connection) -> None:
    """Cases that do nothing."""
    _work(job, output, lambda: None)


def busy(job: Job, output: Connection) -> None:
    """Cases that keep a core busy for a second each."""
    _work(job, output, spin)


def spin() -> None:
    """A second of work."""
    end = time.perf_counter() + 1.0
    while time.perf_counter() < end:
        pass


def _work(job: Job, output: Connection, act: Callable[[], None]) -> None:
    become_worker(output)
    with EventLog(job.log) as log:
        for case in job.cases:
            (stage,) = case.stages
            log.write(Entered(case=case.id, attempt=job.attempt, stage=stage))
            act()
            log.write(
                Ended(case=case.id, attempt=job.attempt, stage=stage, outcome=Outcome.PASSED, seconds=0.0)
            )
