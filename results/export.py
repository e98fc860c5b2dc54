"""Takes a store elsewhere: a Parquet file for each table and each published view, in one folder.

Each file's metadata says which table or view of which schema version it is, and of which run if of one:
``SELECT * FROM parquet_kv_metadata('runs.parquet')``.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from results import schema
from results.layout import StoreError
from results.logs import sync
from results.store import Store
from results.views import VIEWS


@dataclasses.dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        rows: of each file, by the name of its table or view.
        bytes: of all files together.
    """

    rows: Mapping[str, int]
    bytes: int


def export(store: Store, target: Path, *, run: str | None = None) -> Exported:
    """Write a store, or one run of it, as Parquet into a folder that is not there yet.

    The folder appears when all of it is written, or not at all. Nothing in the store changes.

    Raises:
        StoreError: there is something at the target already, the store has no such run, or a query failed.
        OSError: it cannot be written.
    """
    if run is not None:
        run = store.resolve_run(run)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreError(f"there is something at {target} already; name a folder that is new or empty")
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of an export that was cut short
    part.mkdir(parents=True)
    try:
        rows = {name: _write(store, part, name, run) for name in [*_tables(store), *VIEWS]}
        for path in part.iterdir():
            sync(path)
        sync(part)
        if target.exists():
            target.rmdir()
        os.replace(part, target)
        sync(target.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Exported(rows, sum(path.stat().st_size for path in target.iterdir()))


def _tables(store: Store) -> list[str]:
    sql = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'store' ORDER BY table_name"
    return [row["table_name"] for row in store.query_rows(sql)]


def _write(store: Store, folder: Path, name: str, run: str | None) -> int:
    """One table or view, sorted as it is read, so that equal stores make equal files."""
    about = {"schema_version": str(schema.VERSION), "name": name, "run": run or ""}
    if name in VIEWS:
        about["meaning"] = VIEWS[name].meaning
    order = f" ORDER BY {VIEWS[name].order}" if name in VIEWS else ""
    where, params = _where(store, name, run)
    metadata = ", ".join(f"{key}: {_literal(value)}" for key, value in about.items())
    found = store.query_rows(
        f"COPY (SELECT * FROM {name}{where}{order}) TO {_literal(str(folder / f'{name}.parquet'))} "
        f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{metadata}}})",
        params,
    )
    return int(found[0]["Count"])


def _where(store: Store, name: str, run: str | None) -> tuple[str, list[Any]]:
    if run is None:
        return "", []
    if name == "signatures":
        return " WHERE signature IN (SELECT signature FROM stage_results WHERE run = ?)", [run]
    columns = store.query_rows(f"DESCRIBE {name}")
    return (" WHERE run = ?", [run]) if any(row["column_name"] == "run" for row in columns) else ("", [])


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
