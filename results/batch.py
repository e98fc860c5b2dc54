"""Turns events into columns, checking each against the plan on the way.

Rows are gathered per table and handed to DuckDB as Arrow tables, so that an insert is for many rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Set
from typing import Any

import pyarrow as pa

from results.events import (
    Disturbed,
    Ended,
    Entered,
    OpsRecorded,
    Record,
    RunEnded,
    RunStarted,
    WorkerEnded,
    WorkerStarted,
)
from results.plan import Case, Plan
from results.signature import normalise, signature
from results.skip_category import Categorise, skip_category
from results.vocabulary import MODEL_STAGES, OUTCOMES, CaseKind, Outcome, Stage

_TEXT, _INT, _BIG, _REAL, _TIME = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.timestamp("us")
_HEAD = {"run": _TEXT, "log": _TEXT, "seq": _BIG}
_RESULT = {"case_id": _TEXT, "attempt": _INT, "stage": _TEXT}

TABLES: Mapping[str, Mapping[str, pa.DataType]] = {
    "run_starts": {
        **_HEAD,
        "time": _TIME,
        "resumed": pa.bool_(),
        "harness_version": _TEXT,
        "environment": pa.map_(_TEXT, _TEXT),
    },
    "run_ends": {**_HEAD, "time": _TIME, "state": _TEXT, "reason": _TEXT},
    "worker_starts": {**_HEAD, "time": _TIME, "worker": _TEXT, "pid": _BIG, "cases": _BIG},
    "worker_ends": {
        **_HEAD,
        "time": _TIME,
        "worker": _TEXT,
        "fate": _TEXT,
        "signal": _INT,
        "exit_code": _INT,
        "case_id": _TEXT,
        "stage": _TEXT,
        "output_tail": _TEXT,
        "peak_bytes": _BIG,
    },
    "disturbances": {**_HEAD, "case_id": _TEXT, "disturbed_by": pa.list_(_TEXT), "experiments": _INT},
    "entered": {**_HEAD, "time": _TIME, **_RESULT},
    "stage_results": {
        **_HEAD,
        "time": _TIME,
        **_RESULT,
        "outcome": _TEXT,
        "seconds": _REAL,
        "exception": _TEXT,
        "message": _TEXT,
        "traceback": _TEXT,
        "signature": _TEXT,
        "metrics": pa.map_(_TEXT, _REAL),
        "facts": pa.map_(_TEXT, _TEXT),
        "category": _TEXT,
        "evidence": _TEXT,
        "evidence_from": _TEXT,
    },
    "op_calls": {
        **_HEAD,
        **_RESULT,
        "called": _TEXT,
        "executed": _TEXT,
        "dtype": _TEXT,
        "device_calls": _BIG,
        "fallback_calls": _BIG,
        "device_ns": _BIG,
        "fallback_ns": _BIG,
        "bytes_moved": _BIG,
    },
    "signatures": {"signature": _TEXT, "exception": _TEXT, "pattern": _TEXT},
}
"""Columns of the tables that events fill, as the schema has them."""

_QUIET = (Outcome.PASSED, Outcome.NOT_RUN, Outcome.SKIPPED_UPSTREAM, Outcome.SKIPPED_BACKEND)
SIGNED = frozenset(outcome for outcome in OUTCOMES if outcome not in _QUIET)
"""Outcomes that are failures to be clustered, and so have a signature."""


class ContradictionError(RuntimeError):
    """A log says what the plan, or another record, rules out; names both."""


class PlanMismatchError(ContradictionError):
    """A log belongs to another plan than the one beside it."""


_STAGES: Mapping[CaseKind, Set[Stage]] = {
    kind: frozenset(MODEL_STAGES if kind is CaseKind.MODEL else (Stage.TEST,)) for kind in CaseKind
}


class Batch:
    """The rows of one log, by table, each as long as all others of its table."""

    def __init__(
        self, plan: Plan, log: str, cases: Mapping[str, Case], again: Categorise | None = None
    ) -> None:
        """Begin a log of a run; ``cases`` are those of its plan by id, ``again`` is as for ``ingest``."""
        self._plan = plan
        self._again = again
        self._log = log
        self._cases = cases
        self._seen: set[tuple[type, str, int, Stage]] = set()
        self._signatures: set[str] = set()
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        self._add: Mapping[type, Callable[[tuple[Any, ...], int, Any], None]] = {
            RunStarted: self._run_started,
            RunEnded: self._run_ended,
            WorkerStarted: self._worker_started,
            WorkerEnded: self._worker_ended,
            Disturbed: self._disturbed,
            Entered: self._entered,
            Ended: self._ended,
            OpsRecorded: self._ops_recorded,
        }

    def add(self, record: Record) -> None:
        """Take in one record.

        Raises:
            ContradictionError: it names a case or stage that was not planned, repeats a result, or
                holds a number that cannot be.
        """
        try:
            time = int(record.time * 1e6)
            head = (self._plan.run, self._log, record.seq)
            self._add[type(record.event)](head, time, record.event)
        except (OverflowError, ValueError) as error:
            raise ContradictionError(f"{self._log}:{record.seq + 1}: {error}") from error
        except ContradictionError as error:
            raise type(error)(f"{self._log}:{record.seq + 1}: {error}") from error

    def take(self) -> dict[str, pa.Table]:
        """The rows since the last call as Arrow tables, empty ones left out.

        Raises:
            ContradictionError: a number does not fit its column.
        """
        tables = {name: self._table(name, rows) for name, rows in self._rows.items() if rows}
        for rows in self._rows.values():
            rows.clear()
        return tables

    def _table(self, name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
        columns = zip(*rows, strict=True)
        try:
            arrays = [
                pa.array(list(column), kind)
                for column, kind in zip(columns, TABLES[name].values(), strict=True)
            ]
        except (OverflowError, pa.ArrowInvalid) as error:
            raise ContradictionError(f"{self._log}: a number is out of range: {error}") from error
        return pa.table(arrays, names=list(TABLES[name]))

    def _run_started(self, head: tuple[Any, ...], time: int, event: RunStarted) -> None:
        plan = self._plan
        said = (event.run, event.plan_hash, event.planned)
        if said != (plan.run, plan.hash, len(plan.cases)):
            raise PlanMismatchError(
                f"it began run {event.run!r} with plan {event.plan_hash[:12]} of {event.planned} cases, "
                f"but the plan beside it is {plan.run!r}, {plan.hash[:12]}, {len(plan.cases)} cases"
            )
        version = text(event.harness_version)
        self._rows["run_starts"].append((*head, time, event.resumed, version, _texts(event.environment)))

    def _run_ended(self, head: tuple[Any, ...], time: int, event: RunEnded) -> None:
        if event.run != self._plan.run:
            raise PlanMismatchError(f"it ended run {event.run!r}, but this is run {self._plan.run!r}")
        self._rows["run_ends"].append((*head, time, event.state, text(event.reason)))

    def _worker_started(self, head: tuple[Any, ...], time: int, event: WorkerStarted) -> None:
        self._rows["worker_starts"].append((*head, time, text(event.worker), event.pid, event.cases))

    def _worker_ended(self, head: tuple[Any, ...], time: int, event: WorkerEnded) -> None:
        where = (text(event.case), text(event.stage), text(event.output_tail))
        death = (text(event.worker), event.fate, event.signal, event.exit_code)
        self._rows["worker_ends"].append((*head, time, *death, *where, event.peak_bytes))

    def _disturbed(self, head: tuple[Any, ...], _time: int, event: Disturbed) -> None:
        for case in (event.case, *event.by):
            if case not in self._cases:
                raise ContradictionError(f"{case!r} is not in the plan")
        row = (text(event.case), [text(case) for case in event.by], event.experiments)
        self._rows["disturbances"].append((*head, *row))

    def _entered(self, head: tuple[Any, ...], time: int, event: Entered) -> None:
        self._check(event)
        self._rows["entered"].append((*head, time, *_key(event)))

    def _ended(self, head: tuple[Any, ...], time: int, event: Ended) -> None:
        self._check(event)
        self._once(event)
        exception, message = text(event.exception), text(event.message)
        hashed = self._sign(event.outcome, exception, message) if event.outcome in SIGNED else ""
        failure = (exception, message, text(event.traceback), hashed)
        observed = (list(_text_keys(event.metrics).items()), _texts(event.facts))
        category = skip_category(event, self._cases[event.case], self._again)
        evidence = (event.evidence, text(event.evidence_from))
        result = (event.outcome, event.seconds, *failure, *observed, category, *evidence)
        self._rows["stage_results"].append((*head, time, *_key(event), *result))

    def _ops_recorded(self, head: tuple[Any, ...], _time: int, event: OpsRecorded) -> None:
        self._check(event)
        self._once(event)
        rows, start = self._rows["op_calls"], (*head, *_key(event))
        for call in event.calls:
            calls = (call.device_calls, call.fallback_calls)
            counts = (*calls, call.device_ns, call.fallback_ns, call.bytes_moved)
            if min(counts) < 0:
                raise ContradictionError(f"{call.executed} of {event.case!r} has a negative count")
            rows.append((*start, text(call.called), text(call.executed), text(call.dtype), *counts))

    def _check(self, event: Entered | Ended | OpsRecorded) -> None:
        case = self._cases.get(event.case)
        if case is None:
            raise ContradictionError(f"case {event.case!r} is not in the plan")
        if event.stage not in _STAGES[case.kind]:
            raise ContradictionError(f"case {event.case!r} has no stage {event.stage}")

    def _once(self, event: Ended | OpsRecorded) -> None:
        key = (type(event), event.case, event.attempt, event.stage)
        if key in self._seen:
            what = "result" if isinstance(event, Ended) else "record of op calls"
            raise ContradictionError(
                f"a second {what} for {event.case!r}, attempt {event.attempt}, stage {event.stage}"
            )
        self._seen.add(key)

    def _sign(self, outcome: Outcome, exception: str, message: str) -> str:
        named = exception or str(outcome)
        hashed, pattern = _signed(named, message)
        if hashed not in self._signatures:
            self._signatures.add(hashed)
            self._rows["signatures"].append((hashed, named, pattern))
        return hashed


@functools.lru_cache(maxsize=4096)
def _signed(exception: str, message: str) -> tuple[str, str]:
    return signature(exception, message), normalise(message)


def _key(event: Entered | Ended | OpsRecorded) -> tuple[str, int, str]:
    return text(event.case), event.attempt, event.stage


def text(value: str) -> str:
    """A string that UTF-8 can say: lone surrogates, which JSON can carry, become escapes."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")


def _text_keys(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {text(key): value for key, value in mapping.items()}


def _texts(mapping: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(text(key), text(value)) for key, value in mapping.items()]
