"""Makes a store smaller: event logs compressed, what has grown old let go of, the database written anew.

Event logs are what the database is made from, so they are compressed and never dropped: every result, and
with it every published number, can be had again by a rebuild. What is dropped by age is the detail that no
number needs, of passes before that of failures: what workers printed, when a stage was entered whose end is
known, and the tracebacks of failures, whose message and signature stay.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from results import schema
from results.batch import SIGNED
from results.check_database import known_logs
from results.layout import SUPERVISOR_LOCK, StoreError, database_path, run_path
from results.locks import is_held, try_lock
from results.logs import PACKED, PART, SUFFIX, EventLogError, content, log_files, pack
from results.plan import EVENTS_DIR, EXPERIMENTS_DIR, OUTPUT_DIR
from results.writer import writing

_PRINTED = (".log", ".rest.gz")
"""What the names of files with a worker's output end in."""


@dataclasses.dataclass(frozen=True, slots=True)
class Retention:
    """For how many days after the end of a run its details are kept; ``None`` is for ever.

    Raises:
        StoreError: failures would go before passes.
    """

    passes: int | None = None
    failures: int | None = None

    def __post_init__(self) -> None:
        if self.failures is not None and (self.passes is None or self.passes > self.failures):
            raise StoreError("details of failures are kept at least as long as those of passes")


@dataclasses.dataclass(slots=True, kw_only=True)
class Saved:
    """What was made smaller, or would be. Sizes are in bytes.

    Attributes:
        logs, logs_before, logs_after: event logs compressed, and their size before and after.
        outputs, outputs_bytes: files of workers' output that were dropped, and their size.
        rows: details that were dropped from the database.
        database_before, database_after: size of its file.
        left_alone: one sentence for each run that was not touched, and why.
    """

    logs: int = 0
    logs_before: int = 0
    logs_after: int = 0
    outputs: int = 0
    outputs_bytes: int = 0
    rows: int = 0
    database_before: int = 0
    database_after: int = 0
    left_alone: list[str] = dataclasses.field(default_factory=list)


def compact(store: Path, keep: Retention = Retention(), *, wait: float = 0) -> Saved:
    """Make a store smaller. Whatever ends this, and whenever, nothing is lost and all can be read.

    Args:
        wait: seconds to wait for another writer.

    Raises:
        StoreError: there is no store, another process writes to it, or it cannot be written.
    """
    database = _database(store)
    saved = Saved(database_before=database.stat().st_size)
    with writing(store, wait=wait, shrink=True) as connection:
        for run in _runs(connection):
            with _sole(run_path(store, run)) as ours:
                if why := _why_not(connection, store, run, ours=ours):
                    saved.left_alone.append(f"run {run}: {why}")
                    continue
                _compress(connection, run_path(store, run), run, saved)
                for path in _old_output(connection, store, run, keep):
                    saved.outputs += 1
                    saved.outputs_bytes += path.stat().st_size
                    path.unlink()
        saved.rows = _drop_rows(connection, keep)
    saved.database_after = database.stat().st_size
    return saved


def preview(store: Path, keep: Retention) -> Saved:
    """What ``compact`` would find to do; nothing is changed, and sizes after it are not known.

    Raises:
        StoreError: there is no store, or it cannot be read.
    """
    database = _database(store)
    saved = Saved(database_before=database.stat().st_size)
    try:
        with duckdb.connect(str(database), read_only=True) as connection:
            connection.execute("SET enable_progress_bar = false")
            schema.check_readable(connection)
            for run in _runs(connection):
                folder = run_path(store, run)
                if why := _why_not(connection, store, run, ours=not is_held(folder / SUPERVISOR_LOCK)):
                    saved.left_alone.append(f"run {run}: {why}")
                    continue
                logs = _to_pack(connection, folder, run)
                saved.logs += len(logs)
                saved.logs_before += sum(path.stat().st_size for path in logs)
                old = _old_output(connection, store, run, keep)
                saved.outputs += len(old)
                saved.outputs_bytes += sum(path.stat().st_size for path in old)
            saved.rows = sum(
                connection.execute(f"SELECT count(*) FROM {table} WHERE {where}", params).fetchall()[0][0]
                for table, where, params in _old_rows(connection, keep)
            )
    except (duckdb.Error, schema.SchemaError) as error:
        raise StoreError(f"{database} cannot be read: {str(error).splitlines()[0]}") from error
    return saved


def _database(store: Path) -> Path:
    database = database_path(store)
    if not database.exists():
        raise StoreError(f"there is no database at {store}; `harness ingest --rebuild` makes one")
    return database


def _runs(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [run for (run,) in connection.execute("SELECT run FROM runs ORDER BY run").fetchall()]


@contextlib.contextmanager
def _sole(folder: Path) -> Iterator[bool]:
    """Whether no supervisor is at work on a run; none begins to be while the context lasts."""
    if not folder.is_dir():
        yield True
        return
    with (folder / SUPERVISOR_LOCK).open("a+") as file:
        yield try_lock(file)


def _why_not(connection: duckdb.DuckDBPyConnection, store: Path, run: str, *, ours: bool) -> str:
    if not ours:
        return "a process is at work on it"
    if not run_path(store, run).is_dir():
        return "its folder is gone"
    if run not in _ended(connection):
        return f"it has not ended; `harness resume {run}` goes on with it"
    return ""


def _ended(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Runs whose last word is that they ended; as ``v_completeness`` tells it, without counting cases."""
    sql = (
        "SELECT run FROM (SELECT run, max(seq) AS seq FROM run_ends GROUP BY run) e "
        "LEFT JOIN (SELECT run, max(seq) AS seq FROM run_starts GROUP BY run) s USING (run) "
        "WHERE s.seq IS NULL OR s.seq < e.seq"
    )
    return {run for (run,) in connection.execute(sql).fetchall()}


def _compress(connection: duckdb.DuckDBPyConnection, folder: Path, run: str, saved: Saved) -> None:
    for part in [*folder.rglob(f"*{SUFFIX}{PART}"), *folder.rglob(f"*{SUFFIX}{PART}{PACKED}")]:
        part.unlink()  # a compression that was cut short left it
    for path in _to_pack(connection, folder, run):
        before = path.stat().st_size
        try:
            packed = pack(path)
        except EventLogError as error:
            saved.left_alone.append(f"run {run}: {error}")
            continue
        saved.logs += 1
        saved.logs_before += before
        saved.logs_after += packed.stat().st_size


def _to_pack(connection: duckdb.DuckDBPyConnection, folder: Path, run: str) -> list[Path]:
    """Plain logs whose every whole line is in the database, and those of experiments, which never are."""
    known = known_logs(connection, run)
    plain = [path for path in log_files(folder / EXPERIMENTS_DIR).values() if path.suffix != PACKED]
    for name, path in log_files(folder / EVENTS_DIR).items():
        size, digest, refused = known.get(name, (0, "", "never ingested"))
        if path.suffix == PACKED or refused:
            continue
        holds = content(path, size)
        if (holds.whole, holds.sha256) == (size, digest):
            plain.append(path)
    return plain


def _old_output(connection: duckdb.DuckDBPyConnection, store: Path, run: str, keep: Retention) -> list[Path]:
    """Files of output that are kept no longer: of workers that saw no failure first."""
    files = [
        path for path in sorted((run_path(store, run) / OUTPUT_DIR).glob("*")) if path.name.endswith(_PRINTED)
    ]
    if not files or run not in _older(connection, keep.passes):
        return []
    if run in _older(connection, keep.failures):
        return files
    hurt = _hurt_workers(connection, run)
    return [path for path in files if _worker(path) not in hurt]


def _worker(path: Path) -> str:
    name = path.name
    for ending in _PRINTED:
        name = name.removesuffix(ending)
    return name


def _hurt_workers(connection: duckdb.DuckDBPyConnection, run: str) -> set[str]:
    """Workers that died, or in which something failed."""
    sql = (
        "SELECT worker FROM worker_ends WHERE run = $1 AND fate <> 'finished' UNION "
        "SELECT regexp_replace(coalesce(facts['worker'], log), '\\.jsonl$', '') FROM stage_results "
        "WHERE run = $1 AND list_contains($2, outcome)"
    )
    return {worker for (worker,) in connection.execute(sql, [run, _failures()]).fetchall()}


def _failures() -> list[str]:
    return [str(outcome) for outcome in SIGNED]


def _older(connection: duckdb.DuckDBPyConnection, days: int | None) -> set[str]:
    """Runs that ended more than so many days ago."""
    if days is None:
        return set()
    sql = (
        "SELECT run FROM run_ends GROUP BY run "
        "HAVING max(time) < (now() AT TIME ZONE 'UTC') - to_days(?::INTEGER)"
    )
    return {run for (run,) in connection.execute(sql, [days]).fetchall()} & _ended(connection)


def _old_rows(
    connection: duckdb.DuckDBPyConnection, keep: Retention
) -> Iterator[tuple[str, str, Sequence[object]]]:
    """Tables, and which of their rows are details that are kept no longer."""
    ended = (
        "list_contains(?, run) AND (run, case_id, attempt, stage) IN "
        "(SELECT (run, case_id, attempt, stage) FROM stage_results WHERE {what})"
    )
    passes, failures = (sorted(_older(connection, days)) for days in (keep.passes, keep.failures))
    if passes:
        yield "entered", ended.format(what="NOT list_contains(?, outcome)"), [passes, _failures()]
    if failures:
        yield "entered", ended.format(what="list_contains(?, outcome)"), [failures, _failures()]
        yield "stage_results", "list_contains(?, run) AND traceback <> ''", [failures]


def _drop_rows(connection: duckdb.DuckDBPyConnection, keep: Retention) -> int:
    dropped = 0
    for table, where, params in list(_old_rows(connection, keep)):
        do = "DELETE FROM entered" if table == "entered" else "UPDATE stage_results SET traceback = ''"
        dropped += int(connection.execute(f"{do} WHERE {where}", list(params)).fetchall()[0][0])
    return dropped
