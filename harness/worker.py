"""What runs in a worker process: a batch of cases, each stage announced before it runs."""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Generator
from multiprocessing.connection import Connection

import torch

from harness import devices
from harness.job import Job
from harness.model_stages import run_stages
from harness.processes import become_worker
from results.events import CANNOT_LOG_EXIT, Ended, Entered, EventLog, LogWriteError, OpsRecorded
from results.plan import Case
from results.vocabulary import CaseKind, Outcome, Stage
from suites.result import CaseResult, qualified_name, shortened_traceback


def work(job: Job, output: Connection) -> None:
    """Run every case of a job and write its log; the entry point of a worker process."""
    become_worker(output)
    run_cases(job)


def run_cases(job: Job) -> None:
    """Run every case of a job in this process, which can be ended as a whole already."""
    faulthandler.enable()
    torch.set_num_threads(job.threads)
    device = devices.get(job.device)
    device.keep_artefacts(job.compiler_cache)
    try:
        with EventLog(job.log) as log:
            for case in job.cases:
                device.reset()
                _run_case(case, job, device, log)
    except LogWriteError as error:
        print(error, file=sys.stderr)
        sys.exit(CANNOT_LOG_EXIT)


def _run_case(case: Case, job: Job, device: devices.Device, log: EventLog) -> None:
    """Drive the stages of a case; each is announced, run, and recorded, in that order."""
    runner = _runner(case, job, device)
    for stage in case.stages:
        log.write(Entered(case=case.id, attempt=job.attempt, stage=stage))
        result = _next(runner)
        _record(log, case, job.attempt, stage, result)
        if not result.passed:
            break
    runner.close()


def _next(runner: Generator[CaseResult, None, None]) -> CaseResult:
    """Run the next stage; an exception the runner did not judge is a fault of ours, not of the device."""
    started = time.perf_counter()
    try:
        return next(runner)
    except Exception as error:  # noqa: BLE001 - one broken case must not cost the others of its batch
        return CaseResult(
            outcome=Outcome.INFRA_ERROR,
            seconds=time.perf_counter() - started,
            exception=qualified_name(error),
            message=f"the harness failed, not the device: {error}",
            traceback=shortened_traceback(error),
        )


def _runner(case: Case, job: Job, device: devices.Device) -> Generator[CaseResult, None, None]:
    """A generator that runs one stage each time it is asked for the next result."""
    if case.kind is CaseKind.MODEL:
        return run_stages(case, device, job.models)
    if case.kind is CaseKind.OPINFO:
        return _opinfo(case, device)
    if case.kind is CaseKind.CLAIM:
        return _claim(case, device)
    raise ValueError(f"{case.id}: the harness does not run {case.kind} cases itself")


def _opinfo(case: Case, device: devices.Device) -> Generator[CaseResult, None, None]:
    from suites import opinfo

    yield opinfo.run_case(case, device)


def _claim(case: Case, device: devices.Device) -> Generator[CaseResult, None, None]:
    from suites import claims

    yield claims.run_case(case, device)


def _record(log: EventLog, case: Case, attempt: int, stage: Stage, result: CaseResult) -> None:
    if result.calls:
        log.write(OpsRecorded(case=case.id, attempt=attempt, stage=stage, calls=result.calls))
    log.write(
        Ended(
            case=case.id,
            attempt=attempt,
            stage=stage,
            outcome=result.outcome,
            seconds=result.seconds,
            exception=result.exception,
            message=result.message,
            traceback=result.traceback,
            metrics=result.metrics,
            facts=result.facts,
        )
    )
