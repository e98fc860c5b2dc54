"""The schema of a store: its version, its migrations, its views and the vocabulary it joins with.

Tables hold facts and change by migration. Views and vocabulary tables are derived, so a writer
simply makes them anew each time it opens the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

import duckdb

from results.operators import ROLES
from results.vocabulary import (
    CATEGORIES,
    DEVICE_STAGES,
    MODEL_STAGES,
    OUTCOMES,
    SKIP_SOURCES,
    CaseKind,
    Expectation,
    Stage,
    verdict,
)

MIGRATIONS: tuple[str, ...] = (
    "tables_001.sql",
    "tables_002.sql",
    "tables_003.sql",
    "tables_004.sql",
    "tables_005.sql",
)
"""Scripts that lead from an empty database to the present schema, oldest first; never edit a released one."""

VERSION = len(MIGRATIONS)

_VIEW_SCRIPTS = (
    "views_1_cases.sql",
    "views_2_runs.sql",
    "views_3_ops.sql",
    "views_4_models.sql",
    "views_5_skips.sql",
    "views_6_unlock.sql",
)


class SchemaError(RuntimeError):
    """A database that this version of the harness cannot use."""


def first_row(
    connection: duckdb.DuckDBPyConnection, sql: str, params: Sequence[Any] = ()
) -> tuple[Any, ...] | None:
    """The first row of a query, or ``None``.

    All rows are fetched: since DuckDB 2 a connection refuses other work while a result is unread.
    """
    rows = connection.execute(sql, list(params)).fetchall()
    return rows[0] if rows else None


def version(connection: duckdb.DuckDBPyConnection) -> int:
    """Schema version of a database, 0 if it is empty.

    Raises:
        SchemaError: it holds tables but no version, so it is not a store.
    """
    tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if "schema_version" in tables:
        row = first_row(connection, "SELECT max(version) FROM schema_version")
        return int(row[0]) if row and row[0] is not None else 0
    if tables:
        raise SchemaError("the database is not a store of this harness: it has no schema_version table")
    return 0


def check_readable(connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a database of another schema version.

    Raises:
        SchemaError: it is newer, or older and not yet migrated by a writer.
    """
    found = version(connection)
    if found > VERSION:
        raise SchemaError(
            f"the store has schema {found} and this harness reads up to {VERSION}; upgrade the harness"
        )
    if found < VERSION:
        raise SchemaError(
            f"the store has schema {found} and this harness reads {VERSION}; "
            "run `harness ingest` to migrate it"
        )


def migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring a database to the present schema, from empty or from any earlier version.

    Raises:
        SchemaError: it is of a later version, or not a store.
    """
    found = version(connection)
    if found > VERSION:
        check_readable(connection)
    connection.execute("BEGIN")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, applied TIMESTAMP)"
        )
        for number in range(found + 1, VERSION + 1):
            connection.execute(_script(MIGRATIONS[number - 1]))
            connection.execute("INSERT INTO schema_version VALUES (?, now()::TIMESTAMP)", [number])
        _fill_vocabulary(connection)
        for name in _VIEW_SCRIPTS:
            connection.execute(_script(name))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _script(name: str) -> str:
    return (resources.files("results") / "sql" / name).read_text(encoding="utf-8")


def _fill_vocabulary(connection: duckdb.DuckDBPyConnection) -> None:
    outcomes = [
        (outcome, ordinal, rule.meaning, rule.counts, rule.gates)
        for ordinal, (outcome, rule) in enumerate(OUTCOMES.items())
    ]
    verdicts = [
        (o, e, as_declared, verdict(o, e, as_declared=as_declared))
        for o in OUTCOMES
        for e in Expectation
        for as_declared in (True, False)
    ]
    stages = [
        (kind, stage, ordinal, stage in DEVICE_STAGES or stage is Stage.TEST)
        for kind in CaseKind
        for ordinal, stage in enumerate(MODEL_STAGES if kind is CaseKind.MODEL else (Stage.TEST,))
    ]
    tables: dict[str, list[tuple[Any, ...]]] = {
        "outcome_rules": outcomes,
        "verdict_rules": verdicts,
        "stage_rules": stages,
        "op_roles": list(ROLES.items()),
        "skip_sources": [(source, n, meaning) for n, (source, meaning) in enumerate(SKIP_SOURCES.items())],
        "category_rules": [(name, rule.meaning) for name, rule in CATEGORIES.items()],
    }
    connection.execute(_script("vocabulary.sql"))
    for table, rows in tables.items():
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
