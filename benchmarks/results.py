"""What the store costs at the size of a year.

    python benchmarks/results.py [pages] [junit] [compact] [--nights 365] [--tests 154000]
        [--models 100000] [--disk-gb 20] [--minutes 10] [--keep DIR]

Generates a night through the real ingest and as much of the rest of the year as fits disk and time
(``benchmarks/results_year.py``), and prints what was generated, how fast a night is ingested, bytes on disk
for each result, p50 and p95 of every query that the pages make, how long each page's queries take together,
what JUnit XML of a night and compacting take, and the most memory of each step, a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

# Run as a script, this folder stands first on the path, and this file would be taken for the package.
sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.results_year import FIRST, Size, copy_nights, run_of, write_night  # noqa: E402
from results.layout import STORE_VARIABLE, database_path, run_path  # noqa: E402
from results.logs import log_files  # noqa: E402
from results.plan import EVENTS_DIR  # noqa: E402
from results.store import Store  # noqa: E402

_REPEATS = 5
_ENOUGH_MS = 4000
"""A query that took so long already is not repeated."""

_GOAL_MS = 300
_STEPS = ("pages", "junit", "compact")

Numbers = dict[str, Any]


def main() -> None:
    """Measure and print."""
    options = _parser().parse_args()
    size = Size(
        options.nights, options.tests, options.models, int(options.disk_gb * 1000), options.minutes * 60
    )
    store = Path(options.keep or tempfile.mkdtemp(prefix="year-"))
    try:
        _measure(store, size, options.steps or _STEPS)
    finally:
        if not options.keep:
            shutil.rmtree(store)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure the store at the size of a year.")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{', '.join(_STEPS)} (default: all)")
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--tests", type=int, default=154_000)
    parser.add_argument("--models", type=int, default=100_000)
    parser.add_argument("--disk-gb", type=float, default=20, help="most the database may take")
    parser.add_argument("--minutes", type=float, default=10, help="most that copying nights may take")
    parser.add_argument("--keep", help="make the store there, or measure the one that is there; keep it")
    return parser


def _measure(store: Path, size: Size, steps: Collection[str]) -> None:
    if not database_path(store).exists():
        _print("write a night", _apart(_write, store, size))
        _print("ingest it", _apart(_ingest, store))
        _print("copy it", _apart(_copy, store, size))
    _print("generated", _apart(_generated, store))
    if "pages" in steps:
        _print_pages(_apart(_pages, store))
    if "junit" in steps:
        _print("JUnit of a run", _apart(_junit, store))
    if "compact" in steps:
        _print("compact", _apart(_compact, store))


def _print_pages(numbers: Numbers) -> None:
    for page, ms in sorted(numbers.pop("pages").items(), key=lambda item: -item[1]):
        print(f"  page {Path(page).stem}: {ms:,.0f} ms for all its queries, the first time")
    for row in numbers.pop("slow"):
        print(f"  p50 {row['p50']:,.0f} ms, p95 {row['p95']:,.0f} ms: {row['page']}: {row['sql']}")
    _print("pages", numbers)


def _print(what: str, numbers: Numbers) -> None:
    said = (
        f"{name} {value:,.1f}" if isinstance(value, float) else f"{name} {value:,}"
        for name, value in numbers.items()
    )
    print(f"{what}: {', '.join(said)}", flush=True)


def _apart(step: Callable[..., Numbers], *arguments: Any) -> Numbers:
    """Run a step in a process of its own; its numbers, with seconds and the most memory it had."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_inside, args=(theirs, step, arguments))
    process.start()
    theirs.close()
    try:
        numbers: Numbers = ours.recv()
    except EOFError:
        raise SystemExit(f"{step.__name__} failed") from None
    process.join()
    return numbers


def _inside(pipe: Any, step: Callable[..., Numbers], arguments: tuple[Any, ...]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    numbers = step(*arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    times = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    pipe.send({**numbers, **times, "peak_mb": peak})


def _write(store: Path, size: Size) -> Numbers:
    folder = write_night(store, size)
    logs = log_files(folder / EVENTS_DIR).values()
    return {"plan_mb": (folder / "plan.json").stat().st_size / 1e6, "logs_mb": _megabytes(list(logs))}


def _megabytes(paths: list[Path]) -> float:
    return sum(path.stat().st_size for path in paths) / 1e6


def _ingest(store: Path) -> Numbers:
    from results.ingest import ingest

    wall, cpu = time.perf_counter(), time.process_time()
    report = ingest(store, run_path(store, FIRST))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rows = sum(_rows(store).values())
    return {
        "records": report.records,
        "rows": rows,
        "rows_a_second": rows / wall,
        "rows_a_cpu_second": rows / cpu,
        "database_mb": _megabytes([database_path(store)]),
    }


def _rows(store: Path) -> dict[str, int]:
    with Store(store) as reader:
        return {
            table: int(reader.query_rows(f"SELECT count(*) AS n FROM {table}")[0]["n"])
            for table in ("planned", "models", "entered", "stage_results", "op_calls")
        }


def _copy(store: Path, size: Size) -> Numbers:
    return {"nights": copy_nights(store, size)}


def _generated(store: Path) -> Numbers:
    rows = _rows(store)
    database = database_path(store).stat().st_size
    with Store(store) as reader:
        nights = int(reader.query_rows("SELECT count(*) AS n FROM runs")[0]["n"])
    return {
        "nights": nights,
        **rows,
        "database_mb": database / 1e6,
        "database_bytes_a_result": database / rows["stage_results"],
        "log_bytes_a_result": _megabytes(list(log_files(run_path(store, FIRST) / EVENTS_DIR).values()))
        * 1e6
        / (rows["stage_results"] / nights),
    }


def _pages(store: Path) -> Numbers:
    """Open each page with the query functions of the store listened to, then repeat what was asked."""
    asked: list[tuple[str, str, list[Any], float]] = []
    page = ""
    plain = Store._execute

    def listening(self: Store, sql: str, params: Any) -> Any:
        begin = time.perf_counter()
        cursor = plain(self, sql, params)
        kept = _Kept(cursor)
        asked.append((page, sql, list(params), (time.perf_counter() - begin) * 1000))
        return kept

    Store._execute = listening  # type: ignore[method-assign,assignment]
    first: dict[str, float] = {}
    for page, query in _addresses(store):
        before = len(asked)
        _open_page(store, page, query)
        first[page or "overview"] = sum(item[3] for item in asked[before:])
    Store._execute = plain  # type: ignore[method-assign]
    return _repeat(store, asked) | {"pages": first}


class _Kept:
    """A result that was fetched whole while its query was timed."""

    def __init__(self, cursor: Any) -> None:
        self.description = cursor.description
        self._frame = cursor.df()

    def df(self) -> Any:
        """As a frame."""
        return self._frame

    def fetchall(self) -> list[tuple[Any, ...]]:
        """As rows."""
        import pandas as pd

        plain = (
            self._frame.astype(object).where(self._frame.notna(), None) if len(self._frame) else self._frame
        )
        rows = plain.itertuples(index=False, name=None)
        return [tuple(v.to_pydatetime() if isinstance(v, pd.Timestamp) else v for v in row) for row in rows]


def _addresses(store: Path) -> list[tuple[str, dict[str, str]]]:
    from dashboard import shell

    with Store(store) as reader:
        last = run_of(int(reader.query_rows("SELECT count(*) AS n FROM runs")[0]["n"]) - 1)
        failed = "outcome = 'failed_exception' AND stage = 'test'"
        sql = f"SELECT min(case_id) AS test FROM stage_results WHERE run = ? AND {failed}"
        test = reader.query_rows(sql, [last])[0]["test"]
        model = reader.query_rows("SELECT max_by(model_id, downloads) AS m FROM models WHERE run = ?", [last])
    return [
        (shell.OVERVIEW, {"run": last}),
        (shell.MODELS, {"run": last}),
        (shell.MODEL, {"run": last, "model": model[0]["m"]}),
        (shell.OPERATORS, {"run": last}),
        (shell.OPERATOR, {"run": last, "op": "aten::op012"}),
        (shell.TESTS, {"run": last}),
        (shell.TEST, {"run": last, "case": test}),
        (shell.SKIPS, {"run": last}),
        (shell.RUN_PAGE, {"run": last}),
        (shell.ABOUT, {"run": last}),
    ]


def _open_page(store: Path, page: str, query: dict[str, str]) -> None:
    from streamlit.testing.v1 import AppTest

    from dashboard.launch import APP

    app = AppTest.from_file(str(APP), default_timeout=600)
    os.environ[STORE_VARIABLE] = str(store / "nowhere")
    app.run()
    app.switch_page(page)
    os.environ[STORE_VARIABLE] = str(store)
    app.query_params.update(query)
    app.run()
    if app.exception:
        raise SystemExit(f"{page}: {app.exception[0].value}")


def _repeat(store: Path, asked: list[tuple[str, str, list[Any], float]]) -> Numbers:
    """Each distinct query a few times on an open store, as a reader does who changes pages."""
    distinct = {(sql, json.dumps(params, default=str)): (page, params) for page, sql, params, _ in asked}
    every: list[float] = []
    rows: list[Numbers] = []
    with Store(store) as reader:
        for (sql, _), (page, params) in distinct.items():
            times: list[float] = []
            while len(times) < _REPEATS and sum(times) < _ENOUGH_MS:
                begin = time.perf_counter()
                reader.query_rows(sql, params)
                times.append((time.perf_counter() - begin) * 1000)
            every += times
            rows.append(
                {
                    "page": Path(page).stem,
                    "sql": sql[:150],
                    "p50": statistics.median(times),
                    "p95": max(times),
                }
            )
    rows.sort(key=lambda row: -row["p95"])
    return {
        "queries": len(rows),
        "p50_ms": statistics.median(every),
        "p95_ms": statistics.quantiles(every, n=20)[-1],
        "over_goal": sum(row["p95"] > _GOAL_MS for row in rows),
        "slow": rows[:25],
    }


def _junit(store: Path) -> Numbers:
    from results.junit import write_junit

    with Store(store) as reader, Path(os.devnull).open("w") as nowhere:
        write_junit(reader, FIRST, nowhere)
    return {}


def _compact(store: Path) -> Numbers:
    from results.compact import Retention, compact

    saved = compact(store, Retention(passes=30))
    return {
        "logs_mb_before": saved.logs_before / 1e6,
        "logs_mb_after": saved.logs_after / 1e6,
        "database_mb_before": saved.database_before / 1e6,
        "database_mb_after": saved.database_after / 1e6,
        "rows_dropped": saved.rows,
    }


if __name__ == "__main__":
    main()
