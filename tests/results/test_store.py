"""Readers and the writer leave each other alone, and errors say what to do."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import results
from results.ingest import ingest
from results.layout import database_path, run_path
from results.views import VIEWS
from results.writer import writing
from tests.results.factory import COMPLETE_RUN, INCOMPLETE_RUN, make_run, make_store

ROOT = Path(results.__file__).parents[1]


def _python(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(results.StoreError, match=r"no store at .*nowhere; run `harness nightly`"):
        results.open(tmp_path / "nowhere")


def test_there_is_no_run(tmp_path: Path) -> None:
    with writing(tmp_path):
        pass
    with results.open(tmp_path) as store:
        with pytest.raises(results.StoreError, match="holds no run yet; run `harness nightly`"):
            store.latest_run()
        with pytest.raises(results.StoreError, match="has no run 'x'; it has none; run `harness nightly`"):
            store.resolve_run("x")


def test_runs_are_found_by_name_or_the_latest(store: results.Store) -> None:
    assert store.resolve_run(None) == store.latest_run() == INCOMPLETE_RUN
    assert store.resolve_run(COMPLETE_RUN) == COMPLETE_RUN
    with pytest.raises(results.StoreError, match=f"no run 'x'; it has {INCOMPLETE_RUN}, {COMPLETE_RUN}"):
        store.resolve_run("x")


def test_the_default_store_is_named_by_the_environment(
    store_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARNESS_STORE", str(store_path))
    assert results.open().path == store_path
    monkeypatch.delenv("HARNESS_STORE")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(results.StoreError, match="harness-data"):
        results.open()


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_can_be_read_both_ways_and_by_run(store: results.Store, name: str) -> None:
    frame = store.view(name, run=COMPLETE_RUN)
    rows = store.rows(name, run=COMPLETE_RUN)
    assert len(frame) == len(rows)
    assert set(frame["run"]) <= {COMPLETE_RUN}
    assert len(store.view(name)) >= len(frame)


def test_views_are_filtered_by_equality(store: results.Store) -> None:
    frame = store.view("v_cases", run=COMPLETE_RUN, outcome="passed", kind="model")
    assert list(frame["file"]) == ["acme/tiny-bert", "acme/tiny-vit"]


def test_a_wrong_view_column_or_query_is_named(store: results.Store) -> None:
    with pytest.raises(results.StoreError, match="no view 'stage_results'; there are v_runs"):
        store.view("stage_results")
    with pytest.raises(results.StoreError, match="v_runs has no column 'colour'"):
        store.view("v_runs", colour="red")
    with pytest.raises(results.StoreError, match="the query failed"):
        store.query("SELECT nonsense")


def test_a_reader_cannot_write(store: results.Store) -> None:
    with pytest.raises(results.StoreError, match="read-only"):
        store.query("DELETE FROM runs")


def test_a_reader_sees_the_old_store_until_the_new_one_is_swapped_in(tmp_path: Path) -> None:
    make_store(tmp_path, incomplete=False)
    with results.open(tmp_path) as one, results.open(tmp_path) as two:
        key = one.changed()
        with writing(tmp_path) as connection:
            connection.execute("DELETE FROM runs")
            assert len(one.view("v_runs")) == 1
            with results.open(tmp_path) as late:
                assert len(late.view("v_runs")) == 1
        assert len(one.view("v_runs")) == 0
        assert one.changed() != key
        assert len(two.rows("v_runs")) == 0


def test_a_query_that_began_before_the_swap_ends_on_the_old_store(tmp_path: Path) -> None:
    make_store(tmp_path, incomplete=False)
    with results.open(tmp_path) as store:
        cursor = store._execute("SELECT case_id FROM planned", [])
        with writing(tmp_path) as connection:
            connection.execute("DELETE FROM planned")
        assert store.query("SELECT count(*) AS n FROM planned")["n"][0] == 0
        assert len(cursor.fetchall()) == 208


def test_threads_may_share_a_store_while_runs_are_ingested(tmp_path: Path) -> None:
    make_store(tmp_path, incomplete=False)
    wrong: list[object] = []
    done = threading.Event()
    with results.open(tmp_path) as store:

        def read() -> None:
            while not done.is_set():
                try:
                    found = store.rows("v_runs")
                    if len(found) not in (1, 2) or found[-1]["with_result"] != 208:
                        wrong.append(found)
                except Exception as error:  # noqa: BLE001 - whatever it is, the test must show it
                    wrong.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        ingest(tmp_path, make_run(run_path(tmp_path, INCOMPLETE_RUN), INCOMPLETE_RUN, missing=3))
        done.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert len(store.view("v_runs")) == 2


def test_another_process_reads_while_the_writer_is_at_work(tmp_path: Path) -> None:
    make_store(tmp_path, incomplete=False)
    script = "import sys, results; print(len(results.open(sys.argv[1]).view('v_cases')))"
    with writing(tmp_path) as connection:
        connection.execute("DELETE FROM planned")
        child = _python(script, str(tmp_path))
        assert child.communicate(timeout=60)[0].strip() == "208"


HOLD = (
    "import sys, time; from pathlib import Path; from results.writer import writing\n"
    "with writing(Path(sys.argv[1])) as connection:\n"
    "    connection.execute('DELETE FROM runs')\n"
    "    print('holding', flush=True)\n"
    "    time.sleep(60)\n"
)


def test_a_second_writer_is_told_so_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    make_store(tmp_path, incomplete=False)
    child = _python(HOLD, str(tmp_path))
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "holding\n"
        sentence = rf"another process \(pid {child.pid}\) is writing to"
        with pytest.raises(results.StoreError, match=sentence), writing(tmp_path):
            pass
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=60)
    assert len(list(tmp_path.glob(".coverage*"))) > 0  # what it left behind
    assert not ingest(tmp_path, run_path(tmp_path, COMPLETE_RUN)).refused
    assert list(tmp_path.glob(".coverage*")) == []
    with results.open(tmp_path) as store:
        assert len(store.view("v_runs")) == 1


def test_a_writer_that_fails_changes_nothing(tmp_path: Path) -> None:
    make_store(tmp_path, incomplete=False)
    before = database_path(tmp_path).read_bytes()

    def fail() -> None:
        with writing(tmp_path) as connection:
            connection.execute("DELETE FROM runs")
            raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError, match="disk on fire"):
        fail()
    assert database_path(tmp_path).read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [".writer.lock", "coverage.duckdb", "runs"]


def test_a_copy_that_does_not_fit_is_not_left_on_the_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_store(tmp_path, incomplete=False)

    def fill(_source: Path, target: Path) -> None:
        target.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", fill)
    with pytest.raises(OSError, match="No space left"), writing(tmp_path):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".writer.lock", "coverage.duckdb", "runs"]


def test_a_store_whose_path_has_a_quote_can_be_opened(tmp_path: Path) -> None:
    make_store(tmp_path / "it's", incomplete=False)
    with results.open(tmp_path / "it's") as store:
        assert len(store.view("v_runs")) == 1


def test_importing_event_records_loads_no_database_and_nothing_here_loads_torch() -> None:
    script = (
        "import sys, results.events, results.plan\n"
        "assert not {'duckdb', 'pandas', 'rich'} & set(sys.modules)\n"
        "import results.report, results.ingest, results.gaps, results.expectations\n"
        "others = {'torch', 'harness', 'suites', 'model_zoo', 'dashboard', 'torchneuron_backend'}\n"
        "print(sorted(others & set(sys.modules)))\n"
    )
    assert _python(script).communicate(timeout=60)[0] == "[]\n"


def test_no_progress_bar_gets_between_what_is_printed(tmp_path: Path) -> None:
    """In a process without a main file, as a worker is, DuckDB would draw one on standard output."""
    program = (
        "import sys, types; sys.modules['__main__'] = types.ModuleType('__main__')\n"
        "from pathlib import Path\n"
        "from results.store import open_store\n"
        "from results.writer import writing\n"
        "asked = \"SELECT current_setting('enable_progress_bar') AS bar\"\n"
        "store = Path(sys.argv[1])\n"
        "with writing(store) as connection:\n"
        "    print(connection.execute(asked).fetchall())\n"
        "print(open_store(store).query_rows(asked))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n") == ["[(False,)]", "[{'bar': False}]", ""]
