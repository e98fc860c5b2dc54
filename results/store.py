"""Reading a store: views as pandas frames or plain rows, never blocking the writer."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import duckdb

from results import schema
from results.layout import StoreError, database_path, default_store
from results.selectors import NoSuchRunError, select
from results.views import VIEWS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Store", "StoreError", "open_store"]

_BATCH_ROWS = 500
_MEMORY = "25%"
_NO_RUN = "run `harness nightly` to make one"


class Store:
    """A read-only view of a store's database; follows it when a writer swaps in a new one.

    Threads may share it: each query has a cursor of its own.

    Attributes:
        path: the store's folder.
        database: its DuckDB file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = database_path(path)
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._opened: tuple[int, int, int] | None = None
        self._cursor().close()

    def view(self, name: str, **equals: Any) -> pd.DataFrame:
        """A view as a frame, in its reading order, with the rows whose columns equal what is given.

        Raises:
            StoreError: there is no such view or column.
        """
        return self._select(name, equals).df()

    def rows(self, name: str, **equals: Any) -> list[dict[str, Any]]:
        """The same as plain Python values, in which an unknown number is ``None``."""
        return _dicts(self._select(name, equals))

    def query(self, sql: str, params: Sequence[Any] = ()) -> pd.DataFrame:
        """The result of any SQL, as a frame."""
        return self._execute(sql, params).df()

    def query_rows(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The result of any SQL, as plain Python values."""
        return _dicts(self._execute(sql, params))

    def each_row(self, sql: str, params: Sequence[Any] = ()) -> Iterator[dict[str, Any]]:
        """The rows of any SQL one by one, for results too large to be held at once."""
        cursor = self._execute(sql, params)
        names = [column[0] for column in cursor.description or ()]
        while batch := cursor.fetchmany(_BATCH_ROWS):
            for row in batch:
                yield dict(zip(names, row, strict=True))

    def latest_run(self) -> str:
        """Id of the run that began last.

        Raises:
            StoreError: there is none.
        """
        runs = self.rows("v_run_heads")
        if not runs:
            raise StoreError(f"the store at {self.path} holds no run yet; {_NO_RUN}")
        return str(runs[0]["run"])

    def resolve_run(self, run: str | None, *, beside: str | None = None) -> str:
        """The run that is named (:mod:`results.selectors`), or the latest one if none is.

        Args:
            run: an id, ``latest``, ``latest:DEVICE`` or ``previous``.
            beside: id of the run before which ``previous`` lies (default: the latest).

        Raises:
            StoreError: there is no such run.
        """
        if run is None:
            return self.latest_run()
        runs = self.rows("v_run_heads")
        try:
            return select(runs, run, beside=beside)
        except NoSuchRunError as error:
            more = "" if runs else f"; {_NO_RUN}"
            raise StoreError(f"the store at {self.path} has {error}{more}") from None

    def changed(self) -> str:
        """A text that is another one whenever the database is; a key for caches."""
        return "-".join(map(str, self._stat()))

    def close(self) -> None:
        """Let go of the database; the next query opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _select(self, name: str, equals: dict[str, Any]) -> duckdb.DuckDBPyConnection:
        if name not in VIEWS:
            raise StoreError(f"there is no view {name!r}; there are {', '.join(VIEWS)}")
        cursor = self._cursor()
        columns = self._columns(cursor, name)
        unknown = sorted(set(equals) - columns)
        if unknown:
            raise StoreError(f"{name} has no column {unknown[0]!r}; it has {', '.join(sorted(columns))}")
        where = " AND ".join(f'"{column}" = ?' for column in equals) or "true"
        return cursor.execute(
            f"SELECT * FROM {name} WHERE {where} ORDER BY {VIEWS[name].order}", list(equals.values())
        )

    def _columns(self, cursor: duckdb.DuckDBPyConnection, view: str) -> set[str]:
        try:
            return {row[0] for row in cursor.execute(f"DESCRIBE {view}").fetchall()}
        except duckdb.CatalogException:
            raise StoreError(
                f"{self.database} was written by an older harness and has no {view}; "
                "run `harness ingest --rebuild`"
            ) from None

    def _execute(self, sql: str, params: Sequence[Any]) -> duckdb.DuckDBPyConnection:
        try:
            return self._cursor().execute(sql, list(params))
        except duckdb.Error as error:
            raise StoreError(f"the query failed: {error}") from error

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            found = self._stat()
            if self._connection is None or found != self._opened:
                # The old connection is not closed: another thread may be reading from it.
                self._connection = _attach(self.database)
                self._opened = found
            cursor = self._connection.cursor()
        cursor.execute("USE store")
        return cursor

    def _stat(self) -> tuple[int, int, int]:
        try:
            stat = os.stat(self.database)
        except FileNotFoundError:
            raise StoreError(f"there is no store at {self.path}; {_NO_RUN}") from None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size


def open_store(path: str | os.PathLike[str] | None = None) -> Store:
    """Open a store for reading: the one named, else ``$HARNESS_STORE``, else ``harness-data`` here.

    Raises:
        StoreError: there is none, or this harness cannot read it.
    """
    return Store(Path(path) if path is not None else default_store())


def _attach(database: Path) -> duckdb.DuckDBPyConnection:
    # Attached to a connection of its own: DuckDB gives two connections by one path the same
    # database, so a second ``connect(path)`` would still show the file that was swapped away.
    connection = duckdb.connect(":memory:")
    quoted = str(database).replace("'", "''")
    try:
        connection.execute(f"ATTACH '{quoted}' AS store (READ_ONLY)")
        connection.execute("USE store")
        connection.execute("SET enable_progress_bar = false")  # see results.writer
        _bound(connection)
        schema.check_readable(connection)
    except (duckdb.Error, schema.SchemaError) as error:
        connection.close()
        first = str(error).splitlines()[0]
        raise StoreError(f"{database} cannot be read: {first}") from error
    return connection


def _bound(connection: duckdb.DuckDBPyConnection) -> None:
    """Leave room for others; what does not fit lies on disk while a query runs, but not in this folder."""
    spill = str(Path(tempfile.gettempdir()) / "harness-spill").replace("'", "''")
    connection.execute(f"SET temp_directory = '{spill}'")
    connection.execute(f"SET memory_limit = '{_MEMORY}'")


def _dicts(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
