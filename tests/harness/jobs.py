"""Worker entry points for tests of the supervisor: small, quick, and hurt on purpose."""

from __future__ import annotations

import os
import signal
import sys
import time

from harness.job import Job
from results.events import Ended, Entered, EventLog
from results.plan import EVENTS_DIR
from results.vocabulary import Outcome


def behave(job: Job) -> None:
    """Does with each case what the last word of its id says."""
    os.setpgid(0, 0)
    with EventLog(job.folder / EVENTS_DIR / f"{job.worker}.jsonl") as log:
        for case in job.cases:
            stage = case.stages[0]
            log.write(Entered(case=case.id, attempt=job.attempt, stage=stage))
            _act(case.id.rsplit("::", 1)[-1].partition("[")[0])
            log.write(
                Ended(case=case.id, attempt=job.attempt, stage=stage, outcome=Outcome.PASSED, seconds=0.0)
            )
    if any("exits" in case.id for case in job.cases):
        os._exit(7)


def _act(what: str) -> None:
    if what == "hangs":
        time.sleep(600)
    if what == "hangs_with_child":
        os.fork()
        time.sleep(600)
    if what == "segfaults":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "leaves":
        os._exit(3)
    if what == "raises":
        raise RuntimeError("a worker that raises")


def die_at_start(job: Job) -> None:
    """Ends before it has announced anything."""
    sys.exit("the device does not answer")


def interrupt_parent(job: Job) -> None:
    """Presses Ctrl-C for the supervisor while the first case runs."""
    with EventLog(job.folder / EVENTS_DIR / f"{job.worker}.jsonl") as log:
        log.write(Entered(case=job.cases[0].id, attempt=1, stage=job.cases[0].stages[0]))
    os.kill(job.models.seed, signal.SIGINT)
    time.sleep(600)
