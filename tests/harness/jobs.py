"""Worker entry points for tests of the supervisor: small, quick, and hurt on purpose."""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection

from harness.job import Job
from harness.processes import become_worker
from results.events import Ended, Entered, EventLog
from results.vocabulary import Outcome


def behave(job: Job, output: Connection) -> None:
    """Does with each case what the last word of its id says."""
    become_worker(output)
    with EventLog(job.log) as log:
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


def die_at_start(job: Job, output: Connection) -> None:
    """Ends before it has announced anything."""
    become_worker(output)
    sys.exit("the device does not answer")


def interrupt_parent(job: Job, output: Connection) -> None:
    """Presses Ctrl-C for the supervisor while the first case runs."""
    become_worker(output)
    with EventLog(job.log) as log:
        log.write(Entered(case=job.cases[0].id, attempt=1, stage=job.cases[0].stages[0]))
    os.kill(job.models.seed, signal.SIGINT)
    time.sleep(600)
