"""What a run that was cut short has behind it, read from its event logs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from harness import process_tree
from harness.schedule import MAX_LOST, Schedule, given_up, worth_repeating
from results.events import Ended, Entered, Record, WorkerEnded, WorkerStarted, read_log
from results.plan import EVENTS_DIR, Case, Plan
from results.vocabulary import Outcome, Stage

_CLOCK_SECONDS = 10.0


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
        workers: how many workers were started.
        running: workers whose end was not recorded: name and process id by the record's time.
    """

    attempts: Mapping[str, Mapping[int, Attempt]]
    workers: int
    running: tuple[tuple[WorkerStarted, float], ...]

    def finished(self, case: Case) -> Outcome | None:
        """The outcome of a case whose last attempt came to an end, else ``None``."""
        attempts = self.attempts.get(case.id)
        return attempts[max(attempts)].outcome if attempts else None


def recover(plan: Plan, folder: Path) -> Recovered:
    """Read all logs of a run.

    Raises:
        EventLogError: one of them is damaged.
    """
    cases = {case.id: case for case in plan.cases}
    attempts: dict[str, dict[int, Attempt]] = {}
    started: dict[str, tuple[WorkerStarted, float]] = {}
    for log in sorted((folder / EVENTS_DIR).glob("*.jsonl")):
        order: list[str] = []
        for record in read_log(log):
            event = record.event
            if isinstance(event, WorkerStarted):
                started[event.worker] = (event, record.time)
            elif isinstance(event, Entered):
                _enter(attempts, event, order)
    workers = len(started)
    for record in _records(folder):
        event = record.event
        if isinstance(event, Ended):
            _finish(attempts, event, cases[event.case])
        elif isinstance(event, WorkerEnded):
            started.pop(event.worker, None)
    return Recovered(attempts, workers, tuple(started.values()))


def _records(folder: Path) -> Iterator[Record]:
    for log in sorted((folder / EVENTS_DIR).glob("*.jsonl")):
        yield from read_log(log)


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


def end_orphans(recovered: Recovered) -> None:
    """Kill workers that outlived their supervisor; a process number that was given to another is left."""
    for started, when in recovered.running:
        try:
            born = psutil.Process(started.pid).create_time()
        except psutil.Error:
            continue
        if abs(born - when) < _CLOCK_SECONDS:
            process_tree.kill(started.pid)


def unfinished(plan: Plan, recovered: Recovered) -> list[Case]:
    """Cases that were never begun, in the plan's order."""
    return [case for case in plan.cases if case.id not in recovered.attempts]


def take_over(schedule: Schedule, plan: Plan, recovered: Recovered) -> list[Ended]:
    """Queue again what was under way, and failures not yet repeated; returns what is given up instead."""
    cases = {case.id: case for case in plan.cases}
    abandoned = []
    for case_id, attempts in recovered.attempts.items():
        case, last = cases[case_id], max(attempts)
        lost = sum(attempt.outcome is None for attempt in attempts.values())
        schedule.note_lost(case, lost)
        outcome = attempts[last].outcome
        if outcome is None and lost >= MAX_LOST:
            abandoned.append(given_up(case, last, attempts[last].entered, lost))
        elif outcome is None:
            schedule.rerun(case, last + 1)
        elif worth_repeating(case, outcome):
            schedule.repeat(case, last, outcome, tuple(cases[before] for before in attempts[last].before))
    return abandoned
