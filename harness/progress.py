"""The live progress line: how many cases are done, at what rate, and for how much longer."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from harness.engine import Batch
from results.events import Ended
from results.plan import Case
from results.vocabulary import Outcome

_PLAIN_SECONDS = 10.0


class Progress:
    """Counts finished cases; shows one live line on a terminal, and a plain line now and then elsewhere."""

    def __init__(self, cases: Sequence[Case], *, stream: TextIO | None = None, quiet: bool = False) -> None:
        self._last_stage = {case.id: case.stages[-1] for case in cases}
        self._ends: dict[str, Outcome] = {}
        self._counts: Counter[Outcome] = Counter()  # of the ends; asked for far more often than they change
        self._before = 0
        self._began = time.monotonic()
        self._shown = self._began
        self._quiet = quiet
        self._console = Console(file=stream or sys.stderr)
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        if self._console.is_terminal and not self._quiet:
            self._live = Live(console=self._console, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def done(self) -> int:
        """Cases that have come to an end."""
        return len(self._ends)

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """Finished cases by outcome."""
        return +self._counts

    def skip(self, outcomes: Mapping[str, Outcome]) -> None:
        """Take in what an earlier supervisor of the run got done: the outcomes of cases, by id."""
        for case, outcome in outcomes.items():
            self._end(case, outcome)
        self._before = len(outcomes)

    def count_end(self, event: Ended) -> None:
        """Take in the end of a stage, which may be its case's; of several attempts the last counts."""
        if event.outcome is not Outcome.PASSED or event.stage is self._last_stage[event.case]:
            self._end(event.case, event.outcome)

    def _end(self, case: str, outcome: Outcome) -> None:
        if (before := self._ends.get(case)) is not None:
            self._counts[before] -= 1
        self._ends[case] = outcome
        self._counts[outcome] += 1

    def show(self, running: Sequence[Batch]) -> None:
        """Show where the run stands."""
        if self._quiet:
            return
        if self._live is not None:
            self._live.update(Text(self.line(running), no_wrap=True, overflow="ellipsis"))
        elif time.monotonic() - self._shown >= _PLAIN_SECONDS:
            self._shown = time.monotonic()
            self._console.print(Text(self.line(running)), soft_wrap=True)

    def line(self, running: Sequence[Batch]) -> str:
        """The progress line as text."""
        seconds = time.monotonic() - self._began
        planned, rate = len(self._last_stage), (self.done - self._before) / seconds if seconds else 0.0
        left = f", {_clock((planned - self.done) / rate)} left" if rate else ""
        bad = self.done - self._counts[Outcome.PASSED]
        now = ", ".join(batch.now for batch in running if batch.now)
        return (
            f"{self.done}/{planned} cases, {bad} not passed, {rate:.1f}/s, {_clock(seconds)} gone{left}"
            + (f" | {now}" if now else "")
        )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
