"""What the nodes of the tests' Ray clusters run: the real task, around workers that need no torch."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import fsspec

from harness import local, processes
from harness.engine import BatchEnd
from harness.job import Job
from harness.processes import become_worker
from harness.ray_node import Returned, Work, run_batch
from harness.segments import Outbox
from results.events import Ended, Entered, EventLog
from results.vocabulary import Fate, Outcome, Stage
from tests.faults import jobs as hurting
from tests.harness import jobs

STAGE_SECONDS = 0.1
HOLD = "hold"
"""While a file of this name is in the folder for downloads, workers stay in the third stage they enter."""


def behaving(work: Work) -> Returned:
    """Cases do what their names say."""
    return _with(jobs.behave, work)


def misbehaving(work: Work) -> Returned:
    """Cases hurt themselves in the other ways."""
    return _with(hurting.misbehave, work)


def slow(work: Work) -> Returned:
    """Every stage takes its time."""
    return _with(take_time, work)


def without_a_device(work: Work) -> Returned:
    """Workers end before they have announced anything."""
    return _with(jobs.die_at_start, work)


def elsewhere(work: Work) -> Returned:
    """Segments go where the supervisor does not look, as where nodes do not share the folder."""
    return _with(jobs.behave, dataclasses.replace(work, url=f"{work.url}-elsewhere"))


def of_another_version(work: Work) -> Returned:
    """The node has another harness."""
    return _with(jobs.behave, dataclasses.replace(work, version="0.0.1"))


def of_another_batch(work: Work) -> Returned:
    """What the first task leaves goes on with the log of another batch."""
    if work.job.worker != "worker-00000":
        return behaving(work)
    files, root = fsspec.url_to_fs(work.url)
    job = dataclasses.replace(work.job, folder=work.job.models.cache / "elsewhere")
    with EventLog(job.log) as log:
        for case, stage in ((case.id, case.stages[0]) for case in job.cases[:2]):
            log.write(Entered(case=case, attempt=job.attempt, stage=stage))
            log.write(Ended(case=case, attempt=job.attempt, stage=stage, outcome=Outcome.PASSED, seconds=0.1))
        log.write(Entered(case=job.cases[2].id, attempt=job.attempt, stage=job.cases[2].stages[0]))
        log.write(Entered(case="opinfo::f::c::of_nobody", attempt=1, stage=Stage.TEST))
    outbox = Outbox(files, root, job.log)
    outbox.finish()
    return Returned(end=BatchEnd(fate=Fate.FINISHED), segments=outbox.count, left=(), node="here")


def killed_once(work: Work) -> Returned:
    """The process of Ray that runs the first task is killed in the middle of its batch."""
    if work.job.worker == "worker-00000":
        (work.job.models.cache / HOLD).touch()
        threading.Thread(target=_die_later, args=(work.job,), daemon=True).start()
    return _with(take_time, work)


def _die_later(job: Job) -> None:
    segments = job.folder / "segments"
    while not any(len(path.read_text().splitlines()) > 3 for path in segments.glob("*/0*")):
        time.sleep(0.05)
    (job.models.cache / HOLD).unlink()
    os.kill(os.getpid(), signal.SIGKILL)


def _with(job: Callable[[Job, Connection], None], work: Work) -> Returned:
    processes.PRELOADED = ()
    local.run_job = job
    return run_batch(work)


def take_time(job: Job, output: Connection) -> None:
    """Passes each stage after a while; leaves its process number in the folder for downloads."""
    become_worker(output)
    (job.models.cache / f"{job.worker}.pid").write_text(str(os.getpid()))
    print(job.worker, "at work", flush=True)
    entered = 0
    with EventLog(job.log) as log:
        for case in job.cases:
            for stage in case.stages:
                log.write(Entered(case=case.id, attempt=job.attempt, stage=stage))
                time.sleep(STAGE_SECONDS)
                entered += 1
                while entered == 3 and (job.models.cache / HOLD).exists():
                    time.sleep(0.05)
                log.write(
                    Ended(case=case.id, attempt=job.attempt, stage=stage, outcome=Outcome.PASSED, seconds=0.1)
                )
