"""What runs next: first every case once, then failures again alone, then the search for who disturbs whom."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from harness.bisection import Bisection
from harness.engine import NOBODYS_FAULT, OUTCOME_OF, BatchEnd
from harness.history import History
from results.events import Disturbed, Ended, Event
from results.plan import Case
from results.vocabulary import CaseKind, Expectation, Fate, Outcome, Stage, Verdict

MAX_LOST = 3
"""Attempts that may end through no fault of the case before the harness gives it up."""

_NOT_COLLECTION = NOBODYS_FAULT | {Fate.DIED_AT_START}
"""Fates of a pytest session before its first test that are no fault of the files it collects."""

_MODEL_SECONDS = 10.0
_TEST_SECONDS = 0.1
"""Expected seconds of a case that no earlier run knows."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How cases are batched and repeated.

    Attributes:
        size: most test cases a process.
        seconds: expected seconds of a batch, beyond which no case is added.
        group_size, group_seconds: the same for cases of a group (``group`` of their spec, a large test file,
            say), which share a process with their like only: what each process does first is dear.
        attempts: how often a case is run that fails unexpectedly, the first time included.
        reruns: most cases of a run that are run again.
        bisections: most failures of a run for which the disturbing case is searched.
    """

    size: int
    seconds: float
    group_size: int
    group_seconds: float
    attempts: int
    reruns: int
    bisections: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Cases for one process, all in the same attempt.

    Attributes:
        bisection: set if this is an experiment, whose results are no results of the cases.
        positions: id of a case to its place in ``cases``.
    """

    cases: tuple[Case, ...]
    attempt: int = 1
    bisection: Bisection | None = None
    positions: Mapping[str, int] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", {case.id: index for index, case in enumerate(self.cases)})


class Schedule:
    """Hands out tasks and takes in what became of them."""

    def __init__(self, cases: Sequence[Case], rules: Rules, history: History) -> None:
        self._rules = rules
        self._first = deque(Task(cases=batch) for batch in batches(cases, rules, history))
        self._again: deque[Task] = deque()
        self._bisections: deque[Bisection] = deque()
        self._before: dict[str, tuple[Case, ...]] = {}
        self._lost: dict[str, int] = {}
        self._reruns = self._searches = 0
        self._verdict_of_experiment: dict[int, bool | None] = {}

    def next(self) -> Task | None:
        """The next task, ``None`` if there is none now; running tasks may yet bring some."""
        if self._first:
            return self._first.popleft()
        if self._again:
            return self._again.popleft()
        if self._bisections:
            bisection = self._bisections.popleft()
            assert bisection.next is not None
            return Task(cases=(*bisection.next, bisection.suspect), bisection=bisection)
        return None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to hand out."""
        return not (self._first or self._again or self._bisections)

    def rerun(self, case: Case, attempt: int, before: tuple[Case, ...] = ()) -> None:
        """Queue a case by itself; ``before`` ran before it in the process in which it failed."""
        self._before.setdefault(case.id, before)
        self._again.append(Task(cases=(case,), attempt=attempt))

    def took(self, task: Task, event: Ended) -> None:
        """Take in the end of a stage of a task's case."""
        index = task.positions[event.case]
        case = task.cases[index]
        if event.outcome is Outcome.PASSED and event.stage is not case.stages[-1]:
            return
        if task.bisection is not None:
            if case is task.cases[-1]:
                passed = event.outcome is Outcome.PASSED
                failed = _fails(case, event.outcome, event.stage)
                self._verdict_of_experiment[id(task.bisection)] = failed if failed or passed else None
            return
        if worth_repeating(case, event.outcome, event.stage):
            self.repeat(case, task.attempt, event.outcome, task.cases[:index])
        elif event.outcome is Outcome.PASSED and self._before.get(case.id):
            self._search(case)

    def repeat(self, case: Case, attempt: int, outcome: Outcome, before: tuple[Case, ...]) -> None:
        """Queue a case again that failed in an attempt, unless it was repeated often enough."""
        new = case.id not in self._before
        if attempt >= self._rules.attempts or (new and self._reruns >= self._rules.reruns):
            return
        self._reruns += new
        # A hang is not searched for: each experiment would cost a deadline.
        self.rerun(case, attempt + 1, before if outcome is not Outcome.TIMED_OUT else ())

    def _search(self, case: Case) -> None:
        before = self._before.pop(case.id)
        self._before[case.id] = ()
        if self._searches < self._rules.bisections:
            self._searches += 1
            self._bisections.append(Bisection(case, before))

    def over(self, task: Task, end: BatchEnd) -> list[Event]:
        """Take in the end of a task's process; returns what is to be recorded of it."""
        if task.bisection is not None:
            return self._over_experiment(task.bisection)
        if not end.entered_any and task.cases[0].kind is CaseKind.PYTEST and end.fate not in _NOT_COLLECTION:
            return self._over_collection(task, end)
        if end.remaining:
            self._first.appendleft(Task(cases=end.remaining, attempt=task.attempt))
        if end.interrupted is None:
            return []
        case = end.interrupted
        self._lost[case.id] = self._lost.get(case.id, 0) + 1
        if self._lost[case.id] < MAX_LOST:
            self.rerun(case, task.attempt + 1)
            return []
        return [given_up(case, task.attempt, Stage(end.stage), self._lost[case.id])]

    def _over_collection(self, task: Task, end: BatchEnd) -> list[Event]:
        """pytest ended before the first test: halve the batch until it is known with whose file it does."""
        if len(task.cases) == 1 or _group(task.cases[0]):  # a group is of one file
            events: list[Event] = []
            for case in task.cases:
                event = died_at_collection(case, task.attempt, end)
                self.took(task, event)
                events.append(event)
            return events
        middle = len(task.cases) // 2
        for half in (task.cases[middle:], task.cases[:middle]):
            self._first.appendleft(Task(cases=half, attempt=task.attempt))
        return []

    def _over_experiment(self, bisection: Bisection) -> list[Event]:
        bisection.learn(self._verdict_of_experiment.pop(id(bisection), None))
        if bisection.next is not None:
            self._bisections.append(bisection)
            return []
        by = tuple(case.id for case in bisection.culprits)
        return [Disturbed(case=bisection.suspect.id, by=by, experiments=bisection.experiments)]

    def note_lost(self, case: Case, times: int) -> None:
        """Take over from an earlier supervisor how often a case's process was lost."""
        self._lost[case.id] = times


def declared_skips(cases: Iterable[Case]) -> tuple[list[Case], list[Case]]:
    """The cases that an expectation says are not to be run, and the others."""
    left_out: list[Case] = []
    to_run: list[Case] = []
    for case in cases:
        (left_out if case.declared.expectation is Expectation.SKIP else to_run).append(case)
    return left_out, to_run


def skipped(case: Case) -> Ended:
    """The end of a case that is not run because an expectation says so."""
    return Ended(
        case=case.id,
        attempt=1,
        stage=case.stages[0],
        outcome=Outcome.SKIPPED_BACKEND,
        seconds=0.0,
        message=case.declared.reason,
        facts={"category": case.declared.category},
    )


def given_up(case: Case, attempt: int, stage: Stage, times: int) -> Ended:
    """The end of a case whose processes were lost too often."""
    return Ended(
        case=case.id,
        attempt=attempt,
        stage=stage,
        outcome=Outcome.INFRA_ERROR,
        seconds=0.0,
        message=f"given up: {times} times its process was lost or cut short, through no fault of its own",
    )


def died_at_collection(case: Case, attempt: int, end: BatchEnd) -> Ended:
    """The end of a test whose file ends pytest while it is collected."""
    how = f"signal {end.signal}" if end.signal else f"exit code {end.exit_code}"
    return Ended(
        case=case.id,
        attempt=attempt,
        stage=Stage.TEST,
        outcome=OUTCOME_OF.get(end.fate, Outcome.CRASHED),
        seconds=0.0,
        message=f"pytest ended while it collected the file of this test: {end.fate.value}, {how}",
        traceback=end.output_tail,
        facts={"fate": end.fate.value},
    )


def _fails(case: Case, outcome: Outcome, stage: Stage) -> bool:
    return case.declared.verdict(outcome, stage) is Verdict.REGRESSION


def worth_repeating(case: Case, outcome: Outcome, stage: Stage) -> bool:
    """Whether a case should be run again: it failed unexpectedly, or through no fault of its own."""
    return _fails(case, outcome, stage) or outcome is Outcome.INFRA_ERROR


def batches(cases: Iterable[Case], rules: Rules, history: History) -> list[tuple[Case, ...]]:
    """Group cases for processes, what takes longest first.

    A model has a process to itself, and so has a case that ended its process in an earlier run.
    """
    grouped: list[tuple[float, tuple[Case, ...]]] = []
    batch: list[Case] = []
    total = 0.0
    for case in cases:
        seconds = history.seconds.get(case.id, _guess(case))
        if case.kind is CaseKind.MODEL or case.id in history.fragile:
            grouped.append((seconds, (case,)))
            continue
        size, most = rules.size, rules.seconds
        if _group(case):
            size, most = rules.group_size, rules.group_seconds
        if batch and (len(batch) >= size or total + seconds > most or _apart(batch[0], case)):
            grouped.append((total, tuple(batch)))
            batch, total = [], 0.0
        batch.append(case)
        total += seconds
    if batch:
        grouped.append((total, tuple(batch)))
    grouped.sort(key=lambda item: -item[0])  # stable: in the plan's order where nothing is known
    return [batch for _, batch in grouped]


def _group(case: Case) -> str:
    return str(case.spec.get("group", ""))


def _apart(one: Case, other: Case) -> bool:
    """Whether two cases may not share a process."""
    return one.kind is not other.kind or _group(one) != _group(other)


def _guess(case: Case) -> float:
    return _MODEL_SECONDS if case.kind is CaseKind.MODEL else _TEST_SECONDS
