"""The seam between the supervisor and the place where batches run.

An engine runs a job (some cases in one process) and enforces its limits where the process is. The
supervisor decides what runs, follows what is logged, and decides what a death means for the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from harness.job import Job
from results.events import Ended, Record
from results.plan import Case
from results.vocabulary import Fate, Outcome


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchEnd:
    """How the process of a batch ended.

    Attributes:
        charged: the end of the case it died in, ``None`` if it died in none or no case is to blame.
        remaining: cases of the job without a result that nothing is known against.
        interrupted: the case it was in, if it is not to blame for the end; ``None`` otherwise.
        entered_any: whether it had begun a case at all.
    """

    fate: Fate
    signal: int = 0
    exit_code: int = 0
    case: str = ""
    stage: str = ""
    charged: Ended | None = None
    remaining: tuple[Case, ...] = ()
    interrupted: Case | None = None
    entered_any: bool = True
    output_tail: str = ""
    peak_bytes: int = 0


NOBODYS_FAULT = frozenset({Fate.INTERRUPTED, Fate.DISK_FULL, Fate.LOST})
"""Fates for which the case that was running is not to blame; it runs again."""

OUTCOME_OF = {
    Fate.KILLED_AT_DEADLINE: Outcome.TIMED_OUT,
    Fate.SILENT: Outcome.TIMED_OUT,
    Fate.MEMORY_LIMIT: Outcome.OUT_OF_MEMORY,
    Fate.OOM_KILLED: Outcome.OUT_OF_MEMORY,
}
"""What a fate makes of the case that was running; all others leave it ``crashed``."""


class Batch(Protocol):
    """A job under way."""

    @property
    def job(self) -> Job:
        """What it runs."""

    @property
    def pid(self) -> int:
        """Number of its process where it runs, 0 if that is not known yet."""

    @property
    def now(self) -> str:
        """What it is in, for a progress line; ``""`` if in nothing."""

    def look(self) -> list[Record]:
        """What was logged since the last look; ends the process if it has passed a limit."""

    @property
    def end(self) -> BatchEnd | None:
        """How it ended, ``None`` while it runs; every record has been given by ``look`` by then."""

    def stop(self) -> None:
        """End it now, charging no case; ``end`` is set afterwards."""


class Engine(Protocol):
    """Where batches run."""

    @property
    def slots(self) -> int:
        """How many batches may run at a time.

        Raises:
            HarnessError: there is nothing left to run on; the run stops, and can be resumed.
        """

    def start(self, job: Job) -> Batch:
        """Start a job.

        Raises:
            HarnessError: no process can be started here at all.
        """

    def wait(self, batches: Sequence[Batch], seconds: float) -> None:
        """Return when a batch may have ended, or after ``seconds``."""

    def close(self) -> None:
        """Let go of what the engine holds; no batch runs any more."""
