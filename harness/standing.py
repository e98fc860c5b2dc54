"""Where a batch stands, by its log; a log that cannot be that batch's is refused."""

from __future__ import annotations

import contextlib
from pathlib import Path

from harness.job import Job
from harness.tail import LogTail
from results.events import Ended, Entered, EventLogError, OpsRecorded, Record
from results.plan import Case
from results.vocabulary import Outcome

REFUSED_DIR = "refused"
"""Folder of a run for logs of which only the beginning could be kept in ``events``."""


class Standing:
    """Follows the log of a batch.

    Attributes:
        stage: the stage it is in, ``None`` between two.
        entered_any: whether it has begun a case at all.
        finished: ids of the cases that came to an end.
        refused: what is wrong with the log, ``""`` while nothing is; the records before that stand.
    """

    def __init__(self, job: Job) -> None:
        self.stage: Entered | None = None
        self.entered_any = False
        self.finished: set[str] = set()
        self.refused = ""
        self._job = job
        self._cases = {case.id: case for case in job.cases}
        self._tail = LogTail(job.log)
        self._next_stage: Entered | None = None

    @property
    def unfinished(self) -> tuple[Case, ...]:
        """Cases that have not come to an end."""
        return tuple(case for case in self._job.cases if case.id not in self.finished)

    @property
    def place(self) -> Entered | None:
        """The stage it is in, or is about to enter, of a case that has begun and not ended."""
        return self.stage or self._next_stage

    @property
    def offset(self) -> int:
        """Bytes of the log that were taken in."""
        return self._tail.offset

    def case(self, case_id: str) -> Case:
        """A case of the batch."""
        return self._cases[case_id]

    def advance(self) -> list[Record]:
        """What was logged since the last look, up to the first record that cannot be."""
        taken: list[Record] = []
        if self.refused:
            return taken
        try:
            for record in self._tail.records():
                self._take(record)
                taken.append(record)
        except EventLogError as error:
            self.refused = f"{self._job.log.name}:{self._tail.seq + 1}: {error}"
        return taken

    def set_aside(self) -> None:
        """Keep of a refused log what was taken in, and the whole of it elsewhere; nobody may write it now."""
        log, kept = self._job.log, self._job.folder / REFUSED_DIR / self._job.log.name
        with contextlib.suppress(OSError):  # a full disk loses the copy
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(log.read_bytes())
        _cut(log, self._tail.offset)

    def _take(self, record: Record) -> None:
        event = record.event
        if not isinstance(event, Entered | Ended | OpsRecorded):
            raise EventLogError(f"a worker does not record {event.kind}")
        case = self._cases.get(event.case)
        if case is None or event.attempt != self._job.attempt or event.stage not in case.stages:
            raise EventLogError(f"{event.case!r}, attempt {event.attempt}, {event.stage} is not its work")
        if isinstance(event, Entered):
            if event.case in self.finished:
                raise EventLogError(f"{event.case!r} had its result already")
            self.stage, self._next_stage, self.entered_any = event, None, True
            return
        now = self.stage
        if now is None or (now.case, now.stage) != (event.case, event.stage):
            raise EventLogError(f"{event.case!r} was not in {event.stage} then")
        if isinstance(event, Ended):
            self._leave(case, event)

    def _leave(self, case: Case, event: Ended) -> None:
        self.stage = None
        if event.outcome is not Outcome.PASSED or event.stage is case.stages[-1]:
            self.finished.add(case.id)
        else:
            following = case.stages[case.stages.index(event.stage) + 1]
            self._next_stage = Entered(case=case.id, attempt=event.attempt, stage=following)


def _cut(log: Path, size: int) -> None:
    with log.open("r+b") as file:
        file.truncate(size)
