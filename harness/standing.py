"""Where a batch stands, by its log; a log that cannot be that batch's is refused."""

from __future__ import annotations

import contextlib

from harness.job import Job
from results.events import Ended, Entered, Event, EventLogError, OpsRecorded, Record, decode
from results.plan import Case
from results.vocabulary import Outcome, Stage

REFUSED_DIR = "refused"
"""Folder of a run for logs of which only the beginning could be kept in ``events``."""


class Standing:
    """Takes in the log of a batch, and says what is done, under way, and left.

    Attributes:
        entered: the stage it is in, ``None`` between two.
        entered_any: whether it has begun a case at all.
        offset: bytes of the log that were taken in.
        refused: what is wrong with the log, ``""`` while nothing is; the records before that stand.
    """

    def __init__(self, job: Job) -> None:
        self.entered: Entered | None = None
        self.entered_any = False
        self.offset = 0
        self.refused = ""
        self._job = job
        self._cases = {case.id: case for case in job.cases}
        self._finished: set[str] = set()
        self._next: Entered | None = None
        self._seq = 0

    @property
    def place(self) -> Entered | None:
        """The stage it is in, or comes to next, of the case under way."""
        return self.entered or self._next

    @property
    def under_way(self) -> Case | None:
        """The case that was begun and has no result; it may be between two stages."""
        return self._cases[self.place.case] if self.place else None

    @property
    def left(self) -> tuple[Case, ...]:
        """Cases of which nothing is known yet."""
        begun = {*self._finished, *((self.place.case,) if self.place else ())}
        return tuple(case for case in self._job.cases if case.id not in begun)

    @property
    def done(self) -> bool:
        """Whether every case has its result."""
        return len(self._finished) == len(self._cases)

    def take(self, lines: bytes) -> list[Record]:
        """Take in the lines that come next, up to the first that cannot be; after that one, nothing."""
        taken: list[Record] = []
        for line in lines.splitlines(keepends=True) if not self.refused else ():
            try:
                record = decode(line.decode("ascii", "replace"))
                if record.seq != self._seq:
                    raise EventLogError(f"expected record {self._seq}, found {record.seq}")
                self._take(record.event)
            except EventLogError as error:
                self.refused = f"{self._job.log.name}:{self._seq + 1}: {error}"
                break
            taken.append(record)
            self._seq += 1
            self.offset += len(line)
        return taken

    def _take(self, event: Event) -> None:
        if not isinstance(event, Entered | Ended | OpsRecorded):
            raise EventLogError(f"a worker does not record {event.kind}")
        case = self._cases.get(event.case)
        if case is None or event.attempt != self._job.attempt or event.stage not in case.stages:
            raise EventLogError(f"{event.case!r}, attempt {event.attempt}, {event.stage} is not its work")
        if isinstance(event, Entered):
            self._enter(case, event)
        elif self.entered is None or (self.entered.case, self.entered.stage) != (event.case, event.stage):
            raise EventLogError(f"{event.case!r} was not in {event.stage} then")
        elif isinstance(event, Ended):
            self._leave(case, event)

    def _enter(self, case: Case, event: Entered) -> None:
        if case.id in self._finished:
            raise EventLogError(f"{event.case!r} had its result already")
        if self.entered is not None:
            raise EventLogError(f"{self.entered.case!r} was still in {self.entered.stage} then")
        expected = self._next or _at(case, event.attempt, case.stages[0])
        if event != expected:
            raise EventLogError(f"{expected.case!r} was to enter {expected.stage} then")
        self.entered, self._next, self.entered_any = event, None, True

    def _leave(self, case: Case, event: Ended) -> None:
        self.entered = None
        if event.outcome is not Outcome.PASSED or event.stage is case.stages[-1]:
            self._finished.add(case.id)
        else:
            self._next = _at(case, event.attempt, case.stages[case.stages.index(event.stage) + 1])


def _at(case: Case, attempt: int, stage: Stage) -> Entered:
    return Entered(case=case.id, attempt=attempt, stage=stage)


def keep_refused(job: Job, log: bytes) -> None:
    """Keep the whole of a refused log beside the part of it that stands; a full disk loses it."""
    kept = job.folder / REFUSED_DIR / job.log.name
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(log)
