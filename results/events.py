"""The records of an event log: one JSON object a line, typed, versioned, flushed one by one.

A worker writes ``Entered`` *before* each stage and ``Ended`` after it, so that the last
``Entered`` of a dead worker's log names the case and the stage it died in. The store is built
from these logs alone. A reader ignores fields it does not know and refuses kinds it does not.

Numbers that JSON cannot say (NaN and the infinities) are written as the strings ``"nan"``,
``"inf"`` and ``"-inf"`` in fields declared as floats and become floats again when read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from results.logs import EventLogError as EventLogError
from results.logs import open_log, unpack
from results.vocabulary import Evidence, Fate, Outcome, RunState, Stage

SCHEMA_VERSION = 1

MAX_TEXT = 64_000
"""Characters of a message, a traceback or an output's tail that a log keeps."""


NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""Numbers of operating system errors after which nothing can be written for now."""


CANNOT_LOG_EXIT = 74
"""Exit code of a process that could not write its log (``EX_IOERR`` of sysexits.h)."""


class LogWriteError(OSError):
    """A record could not be written, most often because the disk is full; the log ends before it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpCall:
    """What one executed kernel did in one stage of one case.

    Attributes:
        called: overload the program called, e.g. ``aten::add.Tensor``; equals ``executed`` where
            the two were not told apart.
        executed: overload whose kernel ran, e.g. ``aten::add.out``.
        dtype: of the first tensor argument, e.g. ``float32``.
        device_calls, fallback_calls: how often it ran on the device, and on the CPU instead.
        device_ns, fallback_ns: nanoseconds spent in each.
        bytes_moved: bytes copied between device and host because of fallbacks.
    """

    called: str
    executed: str
    dtype: str
    device_calls: int = 0
    fallback_calls: int = 0
    device_ns: int = 0
    fallback_ns: int = 0
    bytes_moved: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The supervisor began (or, with ``resumed``, went on with) a run."""

    kind: ClassVar[str] = "run_started"
    run: str
    plan_hash: str
    planned: int
    device: str
    profile: str
    harness_version: str
    environment: Mapping[str, str]
    resumed: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted:
    """A worker process began a batch of cases."""

    kind: ClassVar[str] = "worker_started"
    worker: str
    pid: int
    cases: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A stage of a case is about to run."""

    kind: ClassVar[str] = "entered"
    case: str
    attempt: int
    stage: Stage


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A stage of a case came to an end, by itself or by the supervisor's hand.

    Attributes:
        seconds: wall-clock time of the stage.
        exception: qualified type name, ``""`` if none was raised.
        message: what a reader should see first; ``""`` for a plain pass.
        traceback: the formatted traceback, head and tail kept.
        metrics: measured numbers, e.g. ``max_abs_error``, ``graphs``.
        facts: what else was observed, as text, e.g. ``modalities: text,image``.
        evidence: how the result was come by.
        evidence_from: the case (``representative``, ``header``) or the run (``cached``) it was taken from.
    """

    kind: ClassVar[str] = "ended"
    case: str
    attempt: int
    stage: Stage
    outcome: Outcome
    seconds: float
    exception: str = ""
    message: str = ""
    traceback: str = ""
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    facts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    evidence: Evidence = Evidence.RAN
    evidence_from: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpsRecorded:
    """The op calls of one stage, written just before its ``Ended``."""

    kind: ClassVar[str] = "ops_recorded"
    case: str
    attempt: int
    stage: Stage
    calls: tuple[OpCall, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnded:
    """A worker process ended; written by the supervisor.

    Attributes:
        signal: number of the signal that ended it, 0 if none.
        exit_code: its exit code, 0 if a signal ended it.
        case, stage: what it was in, ``""`` if nothing.
        output_tail: last lines it printed.
        peak_bytes: most memory it and its children were seen to hold, 0 if nobody looked.
    """

    kind: ClassVar[str] = "worker_ended"
    worker: str
    fate: Fate
    signal: int = 0
    exit_code: int = 0
    case: str = ""
    stage: str = ""
    output_tail: str = ""
    peak_bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """A case failed after other cases in one process, and alone it passed; what experiments found of that.

    Attributes:
        by: ids of the fewest cases found that have to run before it, in order; ``()`` if no such case could
            be confirmed, so that the failure is not reproducible.
        experiments: processes that it took.
    """

    kind: ClassVar[str] = "disturbed"
    case: str
    by: tuple[str, ...]
    experiments: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The supervisor came to the end of a run."""

    kind: ClassVar[str] = "run_ended"
    run: str
    state: RunState
    reason: str = ""


Event = RunStarted | WorkerStarted | Entered | Ended | OpsRecorded | WorkerEnded | Disturbed | RunEnded

_KINDS: Mapping[str, type[Any]] = {
    cls.kind: cls
    for cls in (RunStarted, WorkerStarted, Entered, Ended, OpsRecorded, WorkerEnded, Disturbed, RunEnded)
}
_DECLARED: Mapping[type[Any], tuple[tuple[str, str], ...]] = {
    cls: tuple((field.name, str(field.type)) for field in dataclasses.fields(cls))
    for cls in (*_KINDS.values(), OpCall)
}
_ENUMS: Mapping[str, type[Any]] = {
    "Stage": Stage,
    "Outcome": Outcome,
    "Fate": Fate,
    "RunState": RunState,
    "Evidence": Evidence,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """An event with its place in a log.

    Attributes:
        seq: position in the log, from 0, without gaps.
        time: seconds since the epoch, by the clock of the process that wrote it.
    """

    seq: int
    time: float
    event: Event


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {key: _storable(item) for key, item in value.items()}
    return value


def shortened(text: str) -> str:
    """A text of at most ``MAX_TEXT`` characters, its head and tail kept and what was left out counted."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2 - 32
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def encode(record: Record) -> str:
    """Render a record as one line of JSON, without the newline."""
    fields: dict[str, Any] = {"v": SCHEMA_VERSION, "seq": record.seq, "t": record.time}
    fields["kind"] = record.event.kind
    for name, _ in _DECLARED[type(record.event)]:
        value = getattr(record.event, name)
        if name == "calls":
            value = [dataclasses.asdict(call) for call in value]
        fields[name] = _storable(value)
    return _ENCODER.encode(fields)


_PLAIN: Mapping[str, type[Any]] = {"str": str, "int": int, "bool": bool}

Convert = Callable[[str, Any], Any]
"""From the name and the value of a field to what a record holds."""


def _text(name: str, value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{name} must be of type str, not {type(value).__name__}")
    return value


def _members(kind: type[Any]) -> Convert:
    known = {str(member): member for member in kind}
    return lambda _, value: known.get(value) or kind(value)


_CONVERT: Mapping[str, Convert] = {
    **{declared: _members(kind) for declared, kind in _ENUMS.items()},
    "float": lambda _, value: _number(value),
    "Mapping[str, float]": lambda _, value: {key: _number(item) for key, item in value.items()},
    "Mapping[str, str]": lambda _, value: {key: _text(key, item) for key, item in value.items()},
    "tuple[str, ...]": lambda name, value: tuple(_text(name, item) for item in value),
    "tuple[OpCall, ...]": lambda _, value: tuple(OpCall(**_fields(OpCall, call)) for call in value),
}
"""How each declared type but the plain ones is read; what a log holds is never taken on trust."""

_READ: Mapping[type[Any], tuple[tuple[str, type[Any] | None, Convert], ...]] = {
    cls: tuple((name, _PLAIN.get(kind), _CONVERT.get(kind, _text)) for name, kind in fields)
    for cls, fields in _DECLARED.items()
}
"""The fields of each kind of record, with their type if it is a plain one."""


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, bool) or (isinstance(value, str) and value not in ("nan", "inf", "-inf")):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _fields(cls: type[Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, plain, convert in _READ[cls]:
        if name in raw:
            value = raw[name]
            if plain is None:
                value = convert(name, value)
            elif type(value) is not plain:
                raise ValueError(f"{name} must be of type {plain.__name__}, not {type(value).__name__}")
            found[name] = value
    return found


_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not in typeshed


def _parsed(line: str) -> Any:
    """``json.loads`` without its search for white space, by regular expressions, where there is none."""
    try:
        value, end = _scan(line, 0)
    except StopIteration:
        return json.loads(line)
    return value if line[end:] in ("", "\n") else json.loads(line)


def decode(line: str) -> Record:
    """Parse one line.

    Raises:
        EventLogError: it is not JSON, of a later schema, of an unknown kind, or lacks a field.
    """
    try:
        raw = _parsed(line)
        version, kind = raw["v"], raw["kind"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EventLogError(f"not an event record: {line[:80]!r}") from error
    if type(version) is not int or version < 1:
        raise EventLogError(f"not an event record: version {version!r}")
    if version > SCHEMA_VERSION:
        raise EventLogError(
            f"schema {version} is newer than this harness reads ({SCHEMA_VERSION}); upgrade it"
        )
    cls = _KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise EventLogError(f"unknown event kind {kind!r}")
    try:
        seq = raw["seq"]
        if type(seq) is not int:
            raise ValueError(f"seq must be of type int, not {type(seq).__name__}")
        return Record(seq, _number(raw["t"]), cls(**_fields(cls, raw)))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise EventLogError(f"bad {kind} record: {error}") from error


class EventLog:
    """Appends records to one file and flushes each; opening an existing log goes on after its end.

    One that was compressed becomes a plain file again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unpack(path)
            self._seq = _repair(path)
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise LogWriteError(error.errno, f"{path} could not be opened: {error.strerror}") from error
        self._size = path.stat().st_size

    def write(self, event: Event) -> None:
        """Append one event; it has reached the kernel when this returns.

        Raises:
            LogWriteError: it could not be written as a whole, and nothing of it was.
        """
        self._append(Record(self._seq, time.time(), event))

    def take(self, record: Record) -> bool:
        """Append a record of the log that this one is a copy of; False if it is here already.

        Raises:
            EventLogError: the one before it is missing.
            LogWriteError: as for ``write``.
        """
        if record.seq > self._seq:
            raise EventLogError(f"{self.path}: expected record {self._seq}, found {record.seq}")
        if record.seq < self._seq:
            return False
        self._append(record)
        return True

    def _append(self, record: Record) -> None:
        line = encode(record).encode("ascii") + b"\n"
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._size)
            raise LogWriteError(error.errno, f"{self.path} could not be written: {error.strerror}") from error
        self._size += len(line)
        self._seq += 1

    def close(self) -> None:
        """Close the file; writing afterwards is an error."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _repair(path: Path) -> int:
    """Drop a torn last line and return the next sequence number."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        data = file.read()
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            file.truncate(whole)
            os.fsync(file.fileno())
    return data.count(b"\n")


def read_log(path: Path, start: int = 0) -> Iterator[Record]:
    """Yield the records of a log, in either of its forms, from sequence number ``start`` on.

    A last line without its newline is a write that a death cut short; it is left out.

    Raises:
        EventLogError: any other line that is not a record, or a gap in the numbering.
    """
    with open_log(path) as file, io.TextIOWrapper(file, "utf-8", "replace", newline="\n") as text:
        for record in read_lines(text, str(path)):
            if record.seq >= start:
                yield record


def read_lines(lines: Iterable[str], source: str, first: int = 0) -> Iterator[Record]:
    """Yield the records of some lines of a log, of which the first has the number ``first``.

    Raises:
        EventLogError: as for ``read_log``; ``source`` names the log in its message.
    """
    expected = first
    for line in lines:
        if not line.endswith("\n"):
            return
        try:
            record = decode(line)
        except EventLogError as error:
            raise EventLogError(f"{source}:{expected + 1}: {error}") from error
        if record.seq != expected:
            raise EventLogError(f"{source}:{expected + 1}: expected record {expected}, found {record.seq}")
        yield record
        expected += 1
