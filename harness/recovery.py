"""What a run that was cut short has behind it, read from its event logs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import psutil

from harness import process_tree
from harness.evidence import runs
from harness.processes import MARK
from harness.schedule import MAX_LOST, Schedule, given_up, worth_repeating
from results.events import (
    Ended,
    Entered,
    EventLogError,
    Record,
    WorkerEnded,
    WorkerStarted,
    read_log,
)
from results.logs import SUFFIX, find_log, log_files
from results.plan import EVENTS_DIR, EXPERIMENTS_DIR, Case, Plan
from results.vocabulary import Outcome, Stage

SUPERVISOR_LOG = "supervisor"
_CLOCK_SECONDS = 10.0

LeftWorker = tuple[WorkerStarted, float]
"""A worker and the time at which it was announced."""


@dataclasses.dataclass(slots=True)
class Attempt:
    """One attempt of a case as the logs have it.

    Attributes:
        entered: the stage it was in last.
        outcome: what it came to, ``None`` if its end was never recorded.
        before: ids of the cases that ran before it in its process.
    """

    entered: Stage
    before: tuple[str, ...] = ()
    outcome: Outcome | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """What the logs of a run say.

    Attributes:
        attempts: of each case that was begun, by attempt number.
        workers: how many workers there were; a new one is numbered from there.
    """

    attempts: Mapping[str, Mapping[int, Attempt]]
    workers: int

    def finished(self, case: Case) -> Outcome | None:
        """The outcome of a case whose last attempt came to an end, else ``None``."""
        attempts = self.attempts.get(case.id)
        return attempts[max(attempts)].outcome if attempts else None


def recover(plan: Plan, folder: Path) -> Recovered:
    """Read all logs of a run.

    Raises:
        EventLogError: one of them is damaged, or speaks of a case that was not planned.
    """
    cases = {case.id: case for case in plan.cases}
    attempts: dict[str, dict[int, Attempt]] = {}
    ends: list[Ended] = []
    for log in log_files(folder / EVENTS_DIR).values():
        order: list[str] = []
        for record in read_log(log):
            event = record.event
            if isinstance(event, Entered | Ended) and event.case not in cases:
                raise EventLogError(f"{log}:{record.seq + 1}: case {event.case!r} is not in the plan")
            if isinstance(event, Entered):
                _enter(attempts, event, order)
            elif isinstance(event, Ended):
                ends.append(event)
    for end in ends:  # an end may stand in another log, the supervisor's
        _finish(attempts, end, cases[end.case])
    return Recovered(attempts, _workers(folder))


def _workers(folder: Path) -> int:
    """Beyond every number in use: a worker may have written a log and never been announced."""
    events = (record.event for record in _supervisor_records(folder))
    names = [event.worker for event in events if isinstance(event, WorkerStarted)]
    for place in (EVENTS_DIR, EXPERIMENTS_DIR):
        names += [log.removesuffix(SUFFIX) for log in log_files(folder / place)]
    numbers = (name.rpartition("-")[2] for name in names)
    return max((int(number) + 1 for number in numbers if number.isdigit()), default=0)


def _supervisor_records(folder: Path) -> Iterator[Record]:
    log = find_log(folder / EVENTS_DIR / f"{SUPERVISOR_LOG}.jsonl")
    if log is not None:
        yield from read_log(log)


def workers_left(folder: Path) -> list[LeftWorker]:
    """Workers whose end was not recorded.

    Raises:
        EventLogError: the supervisor's log is damaged.
    """
    running: dict[str, LeftWorker] = {}
    for record in _supervisor_records(folder):
        event = record.event
        if isinstance(event, WorkerStarted):
            running[event.worker] = (event, record.time)
        elif isinstance(event, WorkerEnded):
            running.pop(event.worker, None)
    return list(running.values())


def _enter(attempts: dict[str, dict[int, Attempt]], event: Entered, order: list[str]) -> None:
    if event.case not in order:
        order.append(event.case)
    before = tuple(order[: order.index(event.case)])
    of_case = attempts.setdefault(event.case, {})
    of_case.setdefault(event.attempt, Attempt(event.stage, before)).entered = event.stage


def _finish(attempts: dict[str, dict[int, Attempt]], event: Ended, case: Case) -> None:
    if event.outcome is not Outcome.PASSED or event.stage is case.stages[-1]:
        of_case = attempts.setdefault(event.case, {})
        of_case.setdefault(event.attempt, Attempt(event.stage)).outcome = event.outcome


def end_orphans(left: Iterable[LeftWorker]) -> None:
    """Kill what outlived its supervisor; a process number that was given to another is left.

    Linux ends a worker with its supervisor, but not what the worker had started.
    """
    for started, when in left:
        if started.pid and any(
            _is_orphan(pid, started.pid, when) for pid in process_tree.members(started.pid)
        ):
            process_tree.kill(started.pid)


def _is_orphan(pid: int, leader: int, when: float) -> bool:
    """Whether a process of a worker's session is it, or its child: born later, and marked as one of ours."""
    try:
        process = psutil.Process(pid)
        born = process.create_time()
        if pid == leader:
            return abs(born - when) < _CLOCK_SECONDS
        return born > when - _CLOCK_SECONDS and MARK in process.environ()
    except psutil.Error:
        return False


def unfinished(plan: Plan, recovered: Recovered) -> list[Case]:
    """Cases to run that were never begun, in the plan's order."""
    return [case for case in plan.cases if runs(case) and case.id not in recovered.attempts]


def take_over(schedule: Schedule, plan: Plan, recovered: Recovered) -> list[Ended]:
    """Queue again what was under way, and failures not yet repeated; returns what is given up instead."""
    cases = {case.id: case for case in plan.cases}
    abandoned = []
    for case_id, attempts in recovered.attempts.items():
        if not runs(cases[case_id]):
            continue
        case, last = cases[case_id], max(attempts)
        lost = sum(attempt.outcome is None for attempt in attempts.values())
        schedule.note_lost(case, lost)
        outcome = attempts[last].outcome
        if outcome is None and lost >= MAX_LOST:
            abandoned.append(given_up(case, last, attempts[last].entered, lost))
        elif outcome is None:
            schedule.rerun(case, last + 1)
        elif worth_repeating(case, outcome, attempts[last].entered):
            schedule.repeat(case, last, outcome, tuple(cases[before] for before in attempts[last].before))
    return abandoned
