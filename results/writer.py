"""Writing to a store: one writer at a time, on a private copy that is swapped in when it is whole.

DuckDB lets no other process read a file that one process writes. So the writer changes a copy and
puts it in place by a rename: a reader sees the old database or the new one, and neither waits.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from results import schema
from results.layout import PRIVATE_DATABASE, WRITER_LOCK, StoreError, database_path
from results.locks import holder, try_lock
from results.logs import sync

_LOOK_SECONDS = 0.1
_SMALL = ".small"
_CANNOT_WRITE = (duckdb.IOException, duckdb.FatalException, duckdb.OutOfMemoryException)


@contextlib.contextmanager
def writing(
    store: Path, *, fresh: bool = False, wait: float = 0, shrink: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection to a private copy of the database, migrated, and swap it in at the end.

    Args:
        store: folder of the store; made if it is missing.
        fresh: begin with an empty database instead of a copy.
        wait: seconds to wait for another writer.
        shrink: write all that is left to a file of its own in the end: DuckDB's never get smaller.

    Raises:
        StoreError: another writer is at work, the database is damaged or of a newer harness, or it
            cannot be written.
    """
    store.mkdir(parents=True, exist_ok=True)
    with _locked(store, wait):
        private = store / PRIVATE_DATABASE
        _remove(private)  # a writer that died left it
        public = database_path(store)
        try:
            if public.exists() and not fresh:
                shutil.copyfile(public, private)
            connection = _open(private, public)
            with contextlib.closing(connection):
                yield connection
                connection.execute("CHECKPOINT")
            whole = _shrunk(private) if shrink else private
            sync(whole)
            os.replace(whole, public)
            sync(store)
        except _CANNOT_WRITE as error:
            raise StoreError(
                f"{public} could not be written ({_first_line(error)}); it is as it was before, and the "
                "event logs are kept: make room, then `harness ingest` again"
            ) from error
        finally:
            _remove(private)


def _open(private: Path, public: Path) -> duckdb.DuckDBPyConnection:
    try:
        connection = duckdb.connect(str(private))
        try:
            # A process whose main module has no file is a notebook to DuckDB, and gets a bar on its output.
            connection.execute("SET enable_progress_bar = false")
            schema.migrate(connection)
        except BaseException:
            connection.close()
            raise
    except (duckdb.IOException, duckdb.SerializationException, duckdb.FatalException) as error:
        raise StoreError(
            f"{public} is damaged ({_first_line(error)}); rebuild it from its event logs with "
            "`harness ingest --rebuild`"
        ) from error
    except schema.SchemaError as error:
        raise StoreError(f"{public}: {error}") from error
    return connection


@contextlib.contextmanager
def _locked(store: Path, wait: float) -> Iterator[None]:
    """Hold the store's writer lock; the kernel lets go of it when the process ends, however it ends."""
    with (store / WRITER_LOCK).open("a+") as file:
        deadline = time.monotonic() + wait
        while not (own := try_lock(file)) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        if not own:
            raise StoreError(
                f"another process (pid {holder(file)}) is writing to {store}; try again when it is done"
            )
        yield


def _shrunk(private: Path) -> Path:
    """A database with the same tables and views, without the room that was given up; beside the given one."""
    small = private.with_name(private.name + _SMALL)
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET enable_progress_bar = false")
        for name, path, mode in (("big", private, " (READ_ONLY)"), ("small", small, "")):
            quoted = str(path).replace("'", "''")
            connection.execute(f"ATTACH '{quoted}' AS {name}{mode}")
        connection.execute("COPY FROM DATABASE big TO small")
        connection.execute("CHECKPOINT small")
    return small


def _remove(private: Path) -> None:
    for path in (private, private.with_name(private.name + _SMALL)):
        path.unlink(missing_ok=True)
        path.with_name(path.name + ".wal").unlink(missing_ok=True)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
