"""How long a worker may take and how much it may hold, and what it is when it takes more."""

from __future__ import annotations

import dataclasses

from results.vocabulary import Fate, Stage


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds each stage may take; ``start`` is the time to the first, or next, stage."""

    start: float
    fetch: float
    load: float
    forward: float
    backward: float
    compile: float
    test: float

    def of(self, stage: Stage | None) -> float:
        """The deadline of a stage, or of the time between cases for ``None``."""
        seconds: float = getattr(self, stage.value if stage else "start")
        return seconds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one worker, with everything it starts, may take; 0 is no limit.

    Attributes:
        silence: seconds without an event and without a byte of output.
        memory: bytes.
        processes: how many at a time.
    """

    deadlines: Deadlines
    silence: float
    memory: int
    processes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Excess:
    """A limit that was passed: the fate of the worker and a sentence for its case."""

    fate: Fate
    message: str


def passed_deadline(limits: Limits, stage: Stage | None, seconds: float) -> Excess | None:
    """The excess, if ``seconds`` in ``stage`` are too many."""
    limit = limits.deadlines.of(stage)
    if seconds <= limit:
        return None
    return Excess(
        Fate.KILLED_AT_DEADLINE, f"{stage or 'the time between cases'} took longer than {limit:g} s"
    )


def passed_silence(limits: Limits, seconds: float) -> Excess | None:
    """The excess, if a worker was silent for too long."""
    if not limits.silence or seconds <= limits.silence:
        return None
    return Excess(Fate.SILENT, f"it recorded and printed nothing for {limits.silence:g} s")


def passed_usage(limits: Limits, memory: int, processes: int) -> Excess | None:
    """The excess, if a worker holds too much memory (bytes) or too many processes."""
    if limits.memory and memory > limits.memory:
        held, limit = memory / (1 << 30), limits.memory / (1 << 30)
        return Excess(
            Fate.MEMORY_LIMIT,
            f"the process and its children held {held:.2f} GiB; the limit is {limit:.2f} GiB",
        )
    if limits.processes and processes > limits.processes:
        return Excess(
            Fate.PROCESS_LIMIT, f"it had {processes} processes at once; the limit is {limits.processes}"
        )
    return None
