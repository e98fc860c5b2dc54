"""pytest, supervised or recorded by its plugin: files that cannot be collected, workers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.pytest_sessions import JOBS_DIR
from results.events import Entered, WorkerStarted, read_log
from results.layout import run_folders
from results.plan import load_plan
from results.vocabulary import Fate
from tests.faults.runs import account, finish, quick, wait_until

ID = "pytest::"


def write(root: Path, **files: str) -> Path:
    root.mkdir(exist_ok=True)
    for name, text in files.items():
        (root / f"{name}.py").write_text(text)
    return root


def nightly(store: Path, root: Path, *settings: str) -> tuple[int, str]:
    """A night of the tests below a folder, by the real command."""
    chosen = (f'pytest_root="{root}"', 'pytest_paths=["."]', "attempts=1", *settings)
    return finish(
        quick(
            "nightly", "--quiet", "--store", str(store), "--device", "cpu", "--suites", "pytest",
            "--workers", "2", *(word for setting in chosen for word in ("--set", setting)),
        )
    )  # fmt: skip


def test_a_file_that_cannot_be_collected_and_one_that_kills_pytest_cost_a_case_each(tmp_path: Path) -> None:
    root = write(
        tmp_path / "tests",
        test_a="def test_a(): pass",
        test_aborts="import os; os.abort()",
        test_gone="import nonesuch",
        test_z="def test_z(): pass",
    )
    code, output = nightly(tmp_path / "store", root)
    assert code == 1, output
    aborts, gone = f"{ID}test_aborts.py::-::<collection>", f"{ID}test_gone.py::-::<collection>"
    account(
        tmp_path / "store",
        [f"{ID}test_a.py::-::test_a", aborts, gone, f"{ID}test_z.py::-::test_z"],
        {aborts: "crashed", gone: "collection_error"},
        [(Fate.SIGNALLED, aborts)],
    )


@pytest.mark.nightly
def test_a_file_that_hangs_at_import_is_ended_and_the_others_run(tmp_path: Path) -> None:
    hangs = (
        "import os, time\nif os.environ.get('PYTEST_VERSION') and os.path.exists('hang'): time.sleep(1000)\n"
    )
    root = write(
        tmp_path / "tests",
        test_a="def test_a(): pass",
        test_hangs=hangs + "def test_never(): pass",
        test_z="import pathlib\ndef test_z(): pass",
    )
    write(root, conftest="def pytest_configure(config):\n"
          "    if config.getoption('--harness-job'): open('hang', 'w').close()\n")  # fmt: skip
    code, output = nightly(tmp_path / "store", root, "deadlines.start=20")
    assert code == 1, output
    never = f"{ID}test_hangs.py::-::test_never"
    (folder,) = run_folders(tmp_path / "store")
    planned = [case.id for case in load_plan(folder).cases]
    assert planned == [f"{ID}test_a.py::-::test_a", never, f"{ID}test_z.py::-::test_z"]
    account(tmp_path / "store", planned, {never: "timed_out"}, [(Fate.KILLED_AT_DEADLINE, "")] * 3)


def test_no_test_at_all_is_exit_5(tmp_path: Path) -> None:
    root = write(tmp_path / "tests", test_empty="")
    code, output = nightly(tmp_path / "store", root)
    assert code == 5
    assert "matched no case" in output
    assert "Traceback" not in output
    assert not run_folders(tmp_path / "store")


def test_sessions_that_cannot_be_started_are_no_fault_of_the_tests(tmp_path: Path) -> None:
    root = write(tmp_path / "tests", test_a="def test_a(): pass\ndef test_b(): pass")
    store = tmp_path / "store"
    (store / "cache").mkdir(parents=True)
    code, output = nightly(store, root, 'pytest_paths=["test_a.py"]')
    assert code == 0, output
    (folder,) = run_folders(store)
    for path in (folder / "events").iterdir():
        path.unlink()
    (store / "coverage.duckdb").unlink()
    jobs = folder / JOBS_DIR
    for path in jobs.iterdir():
        path.unlink()
    jobs.rmdir()
    jobs.touch()
    code, output = finish(quick("resume", folder.name, "--quiet", "--store", str(store)))
    assert code == 4, output
    planned = [f"{ID}test_a.py::-::test_a", f"{ID}test_a.py::-::test_b"]
    account(store, planned, dict.fromkeys(planned, "not_run"), [(Fate.DIED_AT_START, "")] * 3, complete=False)
    jobs.unlink()
    code, output = finish(quick("resume", folder.name, "--quiet", "--store", str(store)))
    assert code == 0, output
    account(store, planned, {}, [(Fate.DIED_AT_START, "")] * 3)


def test_an_xdist_worker_killed_from_outside_costs_the_test_it_was_in(tmp_path: Path) -> None:
    root = write(
        tmp_path / "tests",
        test_a="import time, pytest\n"
        "@pytest.mark.parametrize('n', range(6))\ndef test_fine(n): pass\n"
        "def test_hangs(): time.sleep(1000)\n",
    )
    log = tmp_path / "log"
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", f"--harness-log={log}"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    hangs = f"{ID}test_a.py::-::test_hangs"
    wait_until(lambda: _worker_in(log, hangs) or process.poll() is not None)
    victim = _worker_in(log, hangs)
    assert psutil.Process(victim).ppid() == process.pid
    os.kill(victim, signal.SIGKILL)
    _, output = finish(process)
    assert "1 failed, 6 passed" in output
    code, output = finish(quick("ingest", str(log), "--store", str(tmp_path / "store")))
    assert code == 0, output
    planned = [case.id for case in load_plan(log).cases]
    assert len(planned) == 7
    account(tmp_path / "store", planned, {hangs: "crashed"}, [(Fate.SIGNALLED, hangs)])


def _worker_in(log: Path, case: str) -> int:
    """Process number of the xdist worker that is in a test, 0 if none is."""
    for path in (log / "events").glob("gw*.jsonl"):
        events = [record.event for record in read_log(path)]
        if events and isinstance(events[-1], Entered) and events[-1].case == case:
            return next(event.pid for event in events if isinstance(event, WorkerStarted))
    return 0
