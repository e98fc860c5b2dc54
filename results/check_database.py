"""Whether the database of a store holds together: its file, its sums, the ids that point at each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb

from results import schema
from results.findings import REBUILD, Finding
from results.schema import first_row

_CASE_TABLES = ("models", "entered", "stage_results", "op_calls", "disturbances")
"""Tables whose rows are about a planned case."""

_RUN_TABLES = ("planned", "run_starts", "run_ends", "worker_starts", "worker_ends", "ingested_logs")
"""Tables whose rows are about a run of table ``runs``."""


def open_for_check(database: Path) -> tuple[duckdb.DuckDBPyConnection | None, list[Finding]]:
    """Open a database whatever its schema, or say why it cannot be."""
    try:
        connection = duckdb.connect(str(database), read_only=True)
    except duckdb.Error as error:
        return None, [_damaged(database, error)]
    try:
        connection.execute("SET enable_progress_bar = false")
        schema.check_readable(connection)
    except (duckdb.Error, schema.SchemaError) as error:
        connection.close()
        found = Finding(what="schema", sentence=f"{database.name}: {error}")
        return None, [found if isinstance(error, schema.SchemaError) else _damaged(database, error)]
    return connection, []


def check_database(connection: duckdb.DuckDBPyConnection, database: Path) -> Iterator[Finding]:
    """Everything that can be said of the database by itself."""
    try:
        _read_everything(connection)
    except duckdb.Error as error:
        yield _damaged(database, error)
        return
    yield from _foreign(connection)
    yield from _repeats(connection)
    yield from _sums(connection)
    yield from _refused(connection)


def _damaged(database: Path, error: Exception) -> Finding:
    first = str(error).splitlines()[0][:200]
    return Finding(what="damaged database", sentence=f"{database.name} is damaged: {first}", advice=REBUILD)


def _read_everything(connection: duckdb.DuckDBPyConnection) -> None:
    """Every block of every column: DuckDB compares each with its checksum as it reads it."""
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        connection.execute(f'SELECT bit_xor(hash(COLUMNS(*))) FROM "{table}"').fetchall()


def _foreign(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    questions = [
        (table, f"SELECT run, case_id FROM {table} ANTI JOIN planned USING (run, case_id)", "a planned case")
        for table in _CASE_TABLES
    ]
    questions += [
        (table, f"SELECT run, run FROM {table} ANTI JOIN runs USING (run)", "a run") for table in _RUN_TABLES
    ]
    signed = "SELECT run, signature FROM stage_results ANTI JOIN signatures USING (signature)"
    questions.append(("stage_results", f"{signed} WHERE signature <> ''", "a known signature"))
    for table, sql, what in questions:
        grouped = f"SELECT run, count(*), min(t.id) FROM ({sql}) t(run, id) GROUP BY run ORDER BY run"
        for run, rows, example in connection.execute(grouped).fetchall():
            sentence = f"{rows} rows of {table} name what is not {what}, such as {example!r}"
            yield Finding(what="foreign id", run=run, sentence=sentence, advice=REBUILD)


def _repeats(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    keys = {"planned": "run, case_id", "stage_results": "run, case_id, attempt, stage"}
    for table, key in keys.items():
        repeated = f"SELECT {key} FROM {table} GROUP BY ALL HAVING count(*) > 1"
        sql = f"SELECT run, count(*), min(case_id) FROM ({repeated}) GROUP BY run ORDER BY run"
        for run, rows, example in connection.execute(sql).fetchall():
            sentence = f"{rows} rows of {table} are there more than once, such as {example!r}"
            yield Finding(what="repeated row", run=run, sentence=sentence, advice=REBUILD)


def _sums(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    """Run by run, so that a year of them fits in memory."""
    for run, planned in connection.execute("SELECT run, planned FROM runs ORDER BY run").fetchall():
        counts = dict(
            connection.execute(
                "SELECT outcome = 'not_run', count(*) FROM v_cases WHERE run = ? GROUP BY ALL", [run]
            ).fetchall()
        )
        told, missing = counts.get(False, 0), counts.get(True, 0)
        if told + missing != planned:
            sentence = (
                f"{planned} cases were planned, and {told} with an outcome and {missing} not run are "
                f"{told + missing}"
            )
            yield Finding(what="sum", run=run, sentence=sentence, advice=REBUILD)


def _refused(connection: duckdb.DuckDBPyConnection) -> Iterator[Finding]:
    sql = "SELECT run, log, refused FROM ingested_logs WHERE refused <> '' ORDER BY run, log"
    for run, log, why in connection.execute(sql).fetchall():
        yield Finding(
            what="refused log",
            run=run,
            sentence=f"{log} was not taken in, and its run is shown as incomplete: {why}",
            advice="mend or remove the log, then `harness ingest --rebuild`",
        )


def known_logs(connection: duckdb.DuckDBPyConnection, run: str) -> dict[str, tuple[int, str, str]]:
    """The logs of a run that were ingested, by name: bytes that were read, their hash, why refused."""
    sql = "SELECT log, bytes, sha256, refused FROM ingested_logs WHERE run = ?"
    return {log: (size, digest, why) for log, size, digest, why in connection.execute(sql, [run]).fetchall()}


def plan_hash(connection: duckdb.DuckDBPyConnection, run: str) -> str:
    """The hash of the plan that the database knows a run by, ``""`` if it does not know it."""
    row = first_row(connection, "SELECT plan_hash FROM runs WHERE run = ?", [run])
    return str(row[0]) if row else ""


def printing_workers(connection: duckdb.DuckDBPyConnection, run: str) -> list[str]:
    """Workers of a run that are known to have printed something, sorted."""
    sql = "SELECT DISTINCT worker FROM worker_ends WHERE run = ? AND output_tail <> '' ORDER BY worker"
    return [worker for (worker,) in connection.execute(sql, [run]).fetchall()]
