"""``harness db compact`` makes a store smaller and leaves every view as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.cli import main
from harness.lock import sole_supervisor
from results.check import check
from results.compact import Retention, compact, preview
from results.ingest import ingest, rebuild
from results.layout import StoreError, database_path, run_path
from results.logs import PACKED, content, log_files
from results.plan import EVENTS_DIR, EXPERIMENTS_DIR, OUTPUT_DIR
from results.store import Store
from results.views import VIEWS
from results.writer import writing
from tests.results.factory import COMPLETE_RUN, INCOMPLETE_RUN, append, make_run
from tests.results.hurt import make_hurt_store

WORKERS = ("w0", "w1", "w2", "w8")
"""Tests failed in w0, w1 and w2 died, and w8 is not known to have seen a failure."""


def _age(store: Path, days: int) -> None:
    """Have the runs of a store ended so many days ago, and no sooner."""
    with writing(store) as connection:
        connection.execute(
            "UPDATE run_ends SET time = (now() AT TIME ZONE 'UTC') - to_days(?::INTEGER) - INTERVAL 1 HOUR",
            [days],
        )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs that ended 40 days ago, with output and an experiment."""
    store = tmp_path_factory.mktemp("made")
    ingest(store, make_run(run_path(store, COMPLETE_RUN)))
    ingest(store, make_run(run_path(store, INCOMPLETE_RUN), INCOMPLETE_RUN, missing=3))
    folder = run_path(store, COMPLETE_RUN)
    (folder / OUTPUT_DIR).mkdir()
    for worker in WORKERS:
        (folder / OUTPUT_DIR / f"{worker}.log").write_text("hello " * 100)
    (folder / OUTPUT_DIR / "w8.rest.gz").write_bytes(b"more")
    (folder / EXPERIMENTS_DIR).mkdir()
    shutil.copy(folder / EVENTS_DIR / "w0.jsonl", folder / EXPERIMENTS_DIR / "worker-00007.jsonl")
    _age(store, 40)
    return store


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "store"))


def _views(store: Path) -> dict[str, str]:
    with Store(store) as reader:
        return {view: str(reader.rows(view)) for view in VIEWS}


def _outputs(store: Path) -> list[str]:
    return sorted(path.name for path in (run_path(store, COMPLETE_RUN) / OUTPUT_DIR).iterdir())


def _count(store: Path, sql: str) -> int:
    with Store(store) as reader:
        return int(reader.query_rows(f"SELECT count(*) AS n FROM {sql}")[0]["n"])


def test_logs_are_compressed_the_database_shrinks_and_every_view_stays(store: Path) -> None:
    events = run_path(store, COMPLETE_RUN) / EVENTS_DIR
    before = {name: content(path) for name, path in log_files(events).items()}
    views, database = _views(store), database_path(store).stat().st_size
    saved = compact(store)
    assert saved.logs == 9, "four logs of each run, and the experiment"
    assert saved.logs_after < saved.logs_before / 5
    assert saved.database_after == database_path(store).stat().st_size < saved.database_before == database
    assert (saved.outputs, saved.rows, saved.left_alone) == (0, 0, [])
    assert {path.suffix for path in log_files(events).values()} == {PACKED}
    assert {name: content(path) for name, path in log_files(events).items()} == before
    assert _views(store) == views
    assert [one for one in check(store) if one.what != "missing output"] == []
    again = compact(store)
    assert (again.logs, again.database_after) == (0, saved.database_after)


def test_a_store_with_every_kind_of_trouble_says_the_same_afterwards(tmp_path: Path) -> None:
    store = make_hurt_store(tmp_path)
    _age(store, 40)
    views = _views(store)
    compact(store, Retention(30, 60))
    assert _views(store) == views


def test_details_of_passes_go_before_those_of_failures(store: Path) -> None:
    views = _views(store)
    assert compact(store, Retention(passes=41)).outputs == 0
    first = compact(store, Retention(passes=39))
    assert (first.outputs, _outputs(store)) == (2, ["w0.log", "w1.log", "w2.log"])
    assert first.rows == _count(store, "stage_results WHERE outcome IN ('passed', 'skipped_upstream')")
    left = "entered e JOIN stage_results r USING (run, case_id, attempt, stage)"
    assert _count(store, f"{left} WHERE outcome = 'passed'") == 0 < _count(store, left)
    assert _views(store) == views, "what went is in no view"
    assert _count(store, "stage_results WHERE traceback <> ''") > 0
    second = compact(store, Retention(39, 39))
    assert (second.outputs, _outputs(store)) == (3, [])
    assert _count(store, left) == _count(store, "stage_results WHERE traceback <> ''") == 0
    published = {view: text for view, text in _views(store).items() if view != "v_stages"}
    assert published == {view: text for view, text in views.items() if view != "v_stages"}
    rebuild(store)
    rebuilt = {view: text for view, text in _views(store).items() if view not in ("v_runs", "v_run_heads")}
    assert rebuilt.items() <= views.items(), "the logs have all of it, and when the run really ended"


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    told = preview(store, Retention(39, 39))
    arguments = ["--keep-passes", "39", "--keep-failures", "39", "--store", str(store)]
    assert main(["db", "compact", "--dry-run", *arguments]) == 0
    assert "9 event logs would be compressed" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before
    done = compact(store, Retention(39, 39))
    assert (told.logs, told.logs_before, told.outputs, told.outputs_bytes, told.rows) == (
        (done.logs, done.logs_before, done.outputs, done.outputs_bytes, done.rows)
    )
    assert main(["db", "compact", *arguments]) == 0
    assert "0 event logs compressed" in capsys.readouterr().out


def test_a_run_at_work_or_without_an_end_is_left_alone(store: Path) -> None:
    make_run(run_path(store, "going"), "going")
    log = run_path(store, "going") / EVENTS_DIR / "supervisor.jsonl"
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    ingest(store, run_path(store, "going"))
    with sole_supervisor(run_path(store, INCOMPLETE_RUN)):
        told, saved = preview(store, Retention()), compact(store)
    assert saved.left_alone == told.left_alone
    assert saved.left_alone == [
        f"run {INCOMPLETE_RUN}: a process is at work on it",
        "run going: it has not ended; `harness resume going` goes on with it",
    ]
    for run, form in ((COMPLETE_RUN, PACKED), (INCOMPLETE_RUN, ".jsonl"), ("going", ".jsonl")):
        assert {path.suffix for path in log_files(run_path(store, run) / EVENTS_DIR).values()} == {form}


def test_a_log_that_the_database_does_not_have_whole_is_left_plain(store: Path) -> None:
    folder = run_path(store, COMPLETE_RUN)
    lines = (folder / EVENTS_DIR / "w0.jsonl").read_bytes().splitlines(keepends=True)
    with (folder / EVENTS_DIR / "w0.jsonl").open("ab") as log:
        log.write(lines[-1])
    append(folder, "w9", [])
    compact(store)
    plain = [name for name, path in log_files(folder / EVENTS_DIR).items() if path.suffix != PACKED]
    assert plain == ["w0.jsonl", "w9.jsonl"]


def test_it_refuses_while_another_process_writes(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with writing(store), pytest.raises(StoreError, match=r"another process \(pid \d+\) is writing"):
        compact(store)
    assert {path.suffix for path in log_files(run_path(store, COMPLETE_RUN) / EVENTS_DIR).values()} == {
        ".jsonl"
    }


@pytest.mark.parametrize("days", [["--keep-failures", "3"], ["--keep-passes", "4", "--keep-failures", "3"]])
def test_failures_cannot_go_first(store: Path, days: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db", "compact", *days, "--store", str(store)]) == 2
    assert "failures are kept at least as long as those of passes" in capsys.readouterr().err
