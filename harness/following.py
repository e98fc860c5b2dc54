"""Where a batch stands, by the records of its log that are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from results.events import Ended, Entered, Record
from results.plan import Case
from results.vocabulary import Outcome, Stage


class Following:
    """Takes in the records of a batch's log, and says what is done, under way, and left.

    Attributes:
        entered: the stage it is in, ``None`` between two.
        entered_any: whether it has begun a case at all.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self.entered: Entered | None = None
        self.entered_any = False
        self._cases = {case.id: case for case in cases}
        self._begun: set[str] = set()
        self._finished: set[str] = set()
        self._next: Stage | None = None

    def take(self, records: Iterable[Record]) -> None:
        """Take in what was logged next."""
        for record in records:
            event = record.event
            if isinstance(event, Entered):
                self.entered, self.entered_any = event, True
                self._begun.add(event.case)
            elif isinstance(event, Ended):
                self.entered = None
                self._end_stage(event)

    def _end_stage(self, event: Ended) -> None:
        stages = self._cases[event.case].stages
        after = stages.index(event.stage) + 1
        self._next = None
        if event.outcome is not Outcome.PASSED or after == len(stages):
            self._finished.add(event.case)
        else:
            self._next = stages[after]

    @property
    def under_way(self) -> Case | None:
        """The case that was begun and has no result; it may be between two stages."""
        open_cases = self._begun - self._finished
        return self._cases[open_cases.pop()] if open_cases else None

    @property
    def stage(self) -> Stage | None:
        """The stage that the case under way is in, or comes to next."""
        return self.entered.stage if self.entered else self._next

    @property
    def left(self) -> tuple[Case, ...]:
        """Cases of which nothing is known yet."""
        return tuple(case for case in self._cases.values() if case.id not in self._begun)

    @property
    def done(self) -> bool:
        """Whether every case has its result."""
        return len(self._finished) == len(self._cases)
