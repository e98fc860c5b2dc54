"""Workers for benchmarks/harness.py: real ones in all but what their cases do."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

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


def take_in_and_measure(store: Path, run: str) -> float:
    """Take a run into the database, as the end of a night does; gives this process's peak memory in MB."""
    from harness.nightly import take_in  # not before: a worker has no need of the database
    from results.store import open_store

    take_in(store, run)
    peak = peak_megabytes()
    with open_store(store) as reader:
        assert reader.rows("v_completeness", run=run)[0]["complete"]
    return peak


def peak_megabytes() -> float:
    """The most memory that this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)
