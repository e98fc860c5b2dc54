"""Builds the database of a store from the plan and the event logs of a run, and from nothing else.

Ingesting twice changes nothing; ingesting a run that went on adds what is new. A log that
contradicts the plan or another log is refused as a whole and its run is shown as incomplete.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import duckdb
import pyarrow as pa

from results.adopt import adopt
from results.batch import Batch, ContradictionError, PlanMismatchError, text
from results.events import EventLogError, read_lines
from results.layout import database_path, run_folders
from results.logs import log_files, open_log
from results.plan import EVENTS_DIR, Case, Plan, load_plan
from results.schema import first_row
from results.skip_category import Categorise
from results.vocabulary import CaseKind
from results.writer import writing

__all__ = ["ContradictionError", "IngestError", "IngestReport", "PlanMismatchError", "ingest", "rebuild"]

_CHUNK_BYTES = 4 << 20
"""Bytes of a log that are rows in memory at a time."""

_CHUNK_CASES = 5000
"""Cases of a plan that are rows in memory at a time."""


class IngestError(RuntimeError):
    """A run whose outcomes do not add up to its plan; nothing of it was stored."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What an ingest did and how the run stands now.

    Attributes:
        logs: logs the run has; ``records``: records that were new; ``refused``: one sentence for
            each log that was refused.
        missing: planned cases without a result.
    """

    run: str
    state: str
    planned: int
    with_result: int
    missing: int
    complete: bool
    logs: int
    records: int
    refused: tuple[str, ...]
    database: Path


def ingest(
    store: Path,
    run_folder: Path,
    *,
    strict: bool = True,
    wait: float = 0,
    again: Categorise | None = None,
) -> IngestReport:
    """Take a run's plan and event logs into a store.

    A run folder outside the store is copied into it first, without its output.

    Args:
        store: folder of the store, made if it is missing.
        run_folder: the folder with ``plan.json`` and ``events/``.
        strict: raise if a log was refused, after what could be stored was stored.
        wait: seconds to wait for another writer.
        again: gives skips their categories anew; without it they keep those they were recorded with.

    Raises:
        PlanError: the folder has no usable plan.
        PlanMismatchError: its logs, or the store, know this run by another plan; nothing is stored.
        ContradictionError: a log was refused.
        IngestError: outcomes do not add up to the plan; nothing is stored.
        StoreError: the store cannot be written.
    """
    plan = load_plan(run_folder)
    with writing(store, wait=wait) as connection:
        folder = adopt(store, run_folder, plan)
        report = _ingest_run(connection, store, folder, plan, again)
    if strict and report.refused:
        raise ContradictionError("; ".join(report.refused))
    return report


def rebuild(store: Path, *, wait: float = 0, again: Categorise | None = None) -> list[IngestReport]:
    """Make the database anew from all runs in the store; the old one stays until it is done.

    ``wait`` and ``again`` are as for ``ingest``.

    Raises:
        PlanError, PlanMismatchError, IngestError, StoreError: as for ``ingest``.
    """
    with writing(store, fresh=True, wait=wait) as connection:
        folders = run_folders(store)
        return [_ingest_run(connection, store, folder, load_plan(folder), again) for folder in folders]


def _ingest_run(
    connection: duckdb.DuckDBPyConnection, store: Path, folder: Path, plan: Plan, again: Categorise | None
) -> IngestReport:
    _store_plan(connection, plan)
    events = folder / EVENTS_DIR
    logs = log_files(events)
    cases = {case.id: case for case in plan.cases}  # made once for all logs
    records, refused = 0, []
    for name, path in logs.items():
        try:
            batch = Batch(plan, name, cases, again)
            records += _in_transaction(connection, path, batch, plan.run, name)
        except PlanMismatchError:
            raise
        except (ContradictionError, EventLogError, duckdb.ConstraintException) as error:
            refused.append(f"{name} was refused: {error}")
            _mark_refused(connection, plan.run, name, str(error))
    return _close(connection, plan, store, len(logs), records, tuple(refused))


def _in_transaction(
    connection: duckdb.DuckDBPyConnection, path: Path, batch: Batch, run: str, name: str
) -> int:
    connection.execute("BEGIN")
    try:
        with open_log(path) as file:
            records = _store_log(connection, file, batch, run, name)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return records


def _store_log(
    connection: duckdb.DuckDBPyConnection, file: BinaryIO, batch: Batch, run: str, name: str
) -> int:
    """Store what a log holds beyond what is known of it, a chunk at a time; the number of its new records."""
    known = first_row(
        connection, "SELECT records, bytes, sha256 FROM ingested_logs WHERE run = ? AND log = ?", [run, name]
    )
    records, size, digest = known or (0, 0, hashlib.sha256().hexdigest())
    lines = _Lines(file, size)
    if lines.digest.hexdigest() != digest:
        raise ContradictionError(f"{name} is not the log that was ingested before: its beginning changed")
    count, full = 0, size + _CHUNK_BYTES
    for record in read_lines(lines, name, records):
        batch.add(record)
        count += 1
        if lines.size >= full:
            _insert_all(connection, batch)
            full = lines.size + _CHUNK_BYTES
    _insert_all(connection, batch)
    row = [run, name, records + count, lines.size, lines.digest.hexdigest(), ""]
    connection.execute("INSERT OR REPLACE INTO ingested_logs VALUES (?, ?, ?, ?, ?, ?)", row)
    return count


class _Lines:
    """The whole lines of a log after its first ``size`` bytes; a last one without its end was torn.

    Attributes:
        size: bytes of the log up to the end of the last line given.
        digest: their hash.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = 0
        self.digest = hashlib.sha256()
        while block := file.read(min(_CHUNK_BYTES, size - self.size)):
            self._count(block)

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            if not line.endswith(b"\n"):
                return
            self._count(line)
            yield line.decode("utf-8", "replace")

    def _count(self, read: bytes) -> None:
        self.size += len(read)
        self.digest.update(read)


def _insert_all(connection: duckdb.DuckDBPyConnection, batch: Batch) -> None:
    for table, rows in batch.take().items():
        _insert(connection, table, rows)


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    connection.register("batch", rows)
    try:
        if table in ("stage_results", "op_calls"):
            _refuse_repeats(connection, table)
        new = " ANTI JOIN signatures USING (signature)" if table == "signatures" else ""
        connection.execute(f"INSERT INTO {table} BY NAME SELECT batch.* FROM batch{new}")
    finally:
        connection.unregister("batch")


def _refuse_repeats(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    found = first_row(
        connection,
        f"SELECT b.case_id, b.attempt, b.stage, b.seq, t.log, t.seq FROM batch b "
        f"JOIN {table} t USING (run, case_id, attempt, stage) ORDER BY b.seq LIMIT 1",
    )
    if found:
        case, attempt, stage, seq, log, other = found
        raise ContradictionError(
            f"line {seq + 1} repeats what {log}:{other + 1} says of {case!r}, "
            f"attempt {attempt}, stage {stage}"
        )


def _mark_refused(connection: duckdb.DuckDBPyConnection, run: str, log: str, why: str) -> None:
    empty = hashlib.sha256().hexdigest()
    connection.execute(
        "INSERT INTO ingested_logs VALUES (?, ?, 0, 0, ?, ?) "
        "ON CONFLICT (run, log) DO UPDATE SET refused = excluded.refused",
        [run, log, empty, text(f"{log}: {why}")],
    )


def _store_plan(connection: duckdb.DuckDBPyConnection, plan: Plan) -> None:
    known = first_row(connection, "SELECT plan_hash FROM runs WHERE run = ?", [plan.run])
    if known:
        if known[0] != plan.hash:
            raise PlanMismatchError(
                f"the store knows run {plan.run!r} by plan {known[0][:12]}, but this plan is {plan.hash[:12]}"
            )
        return
    settings = json.dumps(plan.settings, sort_keys=True, default=str)
    run = [plan.run, text(plan.device), text(plan.profile), plan.hash, len(plan.cases), settings]
    connection.execute("BEGIN")
    connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", run)
    _insert_chunks(connection, "planned", (_planned(plan, case) for case in plan.cases))
    models = (_model(plan, case) for case in plan.cases if case.kind is CaseKind.MODEL)
    _insert_chunks(connection, "models", models)
    connection.execute("COMMIT")


def _insert_chunks(connection: duckdb.DuckDBPyConnection, table: str, rows: Iterable[dict[str, Any]]) -> None:
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, _CHUNK_CASES)):
        _insert(connection, table, pa.Table.from_pylist(chunk))


def _planned(plan: Plan, case: Case) -> dict[str, Any]:
    declared = case.declared
    row = {
        "case_id": case.id,
        "kind": case.kind,
        "suite": case.suite,
        "file": _model_id(case)[0] if case.kind is CaseKind.MODEL else case.id.split("::")[1],
        "op": case.spec.get("op", ""),
        "dtype": case.spec.get("dtype", ""),
        "check_name": case.spec.get("check", ""),
        "expectation": declared.expectation,
        "category": declared.category,
        "reason": declared.reason,
        "link": declared.link,
        "owner": declared.owner,
        "expected_outcome": declared.outcome,
        "expected_stage": declared.stage,
        "spec": json.dumps(case.spec, sort_keys=True, default=str),
    }
    return {"run": plan.run, **{key: text(str(value or "")) for key, value in row.items()}}


def _model(plan: Plan, case: Case) -> dict[str, Any]:
    name, revision = _model_id(case)
    row: dict[str, Any] = {"run": plan.run, "case_id": text(case.id)}
    row |= {"model_id": text(name), "revision": text(revision)}
    for field in ("task", "architecture", "model_type", "library"):
        row[field] = text(str(case.spec.get(field) or ""))
    for field in ("parameters", "downloads"):
        value = case.spec.get(field)
        row[field] = value if isinstance(value, int) else None
    return row


def _model_id(case: Case) -> tuple[str, str]:
    name, _, revision = case.id.removeprefix("model::").partition("@")
    return name, revision


def _close(
    connection: duckdb.DuckDBPyConnection,
    plan: Plan,
    store: Path,
    logs: int,
    records: int,
    refused: tuple[str, ...],
) -> IngestReport:
    """Check that every planned case has exactly one outcome, and say how the run stands."""
    # By rows of the plan: the view of outcomes has one row a case, however often it was planned.
    counted = first_row(
        connection,
        "SELECT count(*) FROM planned JOIN v_decided USING (run, case_id) WHERE run = ?",
        [plan.run],
    )
    total = int(counted[0]) if counted else 0
    if total != len(plan.cases):
        raise IngestError(
            f"run {plan.run!r}: {total} outcomes for {len(plan.cases)} planned cases; nothing was stored"
        )
    row = first_row(
        connection,
        "SELECT state, with_result, missing, complete FROM v_completeness WHERE run = ?",
        [plan.run],
    )
    assert row is not None
    state, with_result, missing, complete = row
    return IngestReport(
        run=plan.run,
        state=state,
        planned=len(plan.cases),
        with_result=with_result,
        missing=missing,
        complete=complete,
        logs=logs,
        records=records,
        refused=refused,
        database=database_path(store),
    )
