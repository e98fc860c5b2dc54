"""Whether a store holds together: the database, and the folders of runs that it is made from.

Nothing is changed. A run that a process is at work on is not looked at: its logs grow meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb

from results.check_database import (
    check_database,
    known_logs,
    open_for_check,
    plan_hash,
    printing_workers,
)
from results.findings import COMPACT, REBUILD, Finding, Weight, some
from results.layout import (
    PRIVATE_DATABASE,
    RUNS_DIR,
    SUPERVISOR_LOCK,
    WRITER_LOCK,
    StoreError,
    database_path,
    run_path,
)
from results.locks import is_held
from results.logs import EventLogError, content, left_over, log_files
from results.plan import EVENTS_DIR, OUTPUT_DIR, PLAN_FILE, PlanError, load_plan


def check(store: Path) -> list[Finding]:
    """Everything that is wrong with a store, or that one may want to know; errors first.

    Raises:
        StoreError: there is no store.
    """
    database = database_path(store)
    if not database.exists() and not (store / RUNS_DIR).is_dir():
        raise StoreError(f"there is no store at {store}; run `harness nightly` to make one")
    found = [*_left_by_writers(store)]
    if not database.exists():
        sentence = f"{database.name} is missing"
        return [*found, Finding(what="missing database", sentence=sentence, advice=REBUILD)]
    connection, why = open_for_check(database)
    found += why
    if connection is not None:
        with connection:
            found += check_database(connection, database)
            if all(finding.what != "damaged database" for finding in found):
                found += _check_runs(connection, store)
    return sorted(found, key=lambda finding: finding.weight is Weight.NOTE)


def _left_by_writers(store: Path) -> Iterator[Finding]:
    left = [path.name for path in sorted(store.glob(f"{PRIVATE_DATABASE}*"))]
    if left and not is_held(store / WRITER_LOCK):
        sentence = f"a writer that died left {some(left)}"
        yield Finding(weight=Weight.NOTE, what="left over", sentence=sentence, advice=COMPACT)


def _check_runs(connection: duckdb.DuckDBPyConnection, store: Path) -> Iterator[Finding]:
    known = {run for (run,) in connection.execute("SELECT run FROM runs").fetchall()}
    folders = (path.name for path in (store / RUNS_DIR).glob("*") if path.is_dir())
    for run in sorted({*known, *folders}):
        folder = run_path(store, run)
        if not folder.is_dir():
            yield Finding(
                what="missing run",
                run=run,
                sentence=f"its folder {RUNS_DIR}/{run} is gone, and a rebuild would lose the run",
                advice="put the folder back from a copy",
            )
        elif not is_held(folder / SUPERVISOR_LOCK):
            yield from _check_run(connection, folder, run, known=run in known)


def _check_run(
    connection: duckdb.DuckDBPyConnection, folder: Path, run: str, *, known: bool
) -> Iterator[Finding]:
    if not (folder / PLAN_FILE).exists():
        sentence = f"{folder.name} has no {PLAN_FILE}"
        advice = "put it back from a copy" if known else "remove the folder if nothing is missed in it"
        yield Finding(what="missing plan", run=run, sentence=sentence, advice=advice)
        return
    try:
        plan = load_plan(folder)
    except PlanError as error:
        yield Finding(what="damaged plan", run=run, sentence=str(error), advice="put it back from a copy")
        return
    if not known:
        logs = len(log_files(folder / EVENTS_DIR))
        sentence = f"it has a plan and {logs} event logs, and was never ingested"
        yield Finding(what="not ingested", run=run, sentence=sentence, advice=_ingest(folder))
        return
    if plan.hash != plan_hash(connection, run):
        sentence = f"the database knows it by another plan than the one in {folder}"
        yield Finding(what="another plan", run=run, sentence=sentence, advice="put the right plan back")
    yield from _check_logs(connection, folder, run)
    yield from _check_output(connection, folder, run)


def _check_logs(connection: duckdb.DuckDBPyConnection, folder: Path, run: str) -> Iterator[Finding]:
    events = folder / EVENTS_DIR
    files, known = log_files(events), known_logs(connection, run)
    gone = sorted(known.keys() - files.keys())
    if gone:
        sentence = f"the event logs {some(gone)} are missing, and a rebuild would lose what they say"
        yield Finding(what="missing log", run=run, sentence=sentence, advice="put them back from a copy")
    new = sorted(files.keys() - known.keys())
    if new:
        sentence = f"the event logs {some(new)} were never ingested"
        yield Finding(what="not ingested", run=run, sentence=sentence, advice=_ingest(folder))
    for name in sorted(files.keys() & known.keys()):
        yield from _check_log(files[name], name, known[name], run, folder)
    for path in left_over(events):
        sentence = f"compressing was cut short and left {path.name}"
        yield Finding(weight=Weight.NOTE, what="left over", run=run, sentence=sentence, advice=COMPACT)


def _check_log(
    path: Path, name: str, known: tuple[int, str, str], run: str, folder: Path
) -> Iterator[Finding]:
    size, digest, refused = known
    if refused:
        return  # check_database says so
    try:
        holds = content(path, size)
    except EventLogError as error:
        yield Finding(what="damaged log", run=run, sentence=str(error), advice="put it back from a copy")
        return
    if holds.bytes < size or holds.sha256 != digest:
        sentence = f"{name} is not the log that was ingested: what was read of it has changed"
        yield Finding(what="changed log", run=run, sentence=sentence, advice="put it back from a copy")
    elif holds.whole > size:
        sentence = f"{name} went on after it was ingested"
        yield Finding(what="not ingested", run=run, sentence=sentence, advice=_ingest(folder))
    elif holds.bytes > holds.whole:
        sentence = f"the last line of {name} is torn; a death cut it short, and it was never counted"
        yield Finding(weight=Weight.NOTE, what="torn log", run=run, sentence=sentence)


def _check_output(connection: duckdb.DuckDBPyConnection, folder: Path, run: str) -> Iterator[Finding]:
    gone = [
        worker
        for worker in printing_workers(connection, run)
        if not (folder / OUTPUT_DIR / f"{worker}.log").exists()
    ]
    if gone:
        sentence = f"what {some(gone)} printed is not kept; only the last lines are, in the database"
        yield Finding(weight=Weight.NOTE, what="missing output", run=run, sentence=sentence)


def _ingest(folder: Path) -> str:
    return f"`harness ingest {folder}`"
