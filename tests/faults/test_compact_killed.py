"""``harness db compact`` killed before each change of a file: nothing is lost, and it can be done again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from results.check import check
from results.compact import compact
from results.events import RunEnded
from results.findings import Weight
from results.ingest import ingest, rebuild
from results.layout import run_path
from results.logs import Content, content, left_over, log_files
from results.plan import EVENTS_DIR, OUTPUT_DIR, make_plan
from results.store import Store
from results.vocabulary import Outcome, RunState, Stage
from tests.results.factory import ended, opinfo_case, started, write_run

_KILLED_AT = """
import os, signal, sys
store, left = sys.argv[1], int(sys.argv[2])

def count(event, arguments):
    global left
    changes = event in ("os.rename", "os.remove", "shutil.copyfile", "os.truncate")
    if event == "open" and isinstance(arguments[2], int):
        changes = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
    if changes and any(str(argument).startswith(store) for argument in arguments[:2]):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

from harness.cli import main
from results import compact
sys.addaudithook(count)
sys.exit(main(["db", "compact", "--keep-passes", "0", "--store", store]))
"""
"""Dies before its Nth change to a file of the store."""

_MOST_STEPS = 200
_VIEWS = ("v_runs", "v_stages", "v_failures", "v_attempt_stages")
RUN = "r"


def _views(store: Path) -> dict[str, str]:
    with Store(store) as reader:
        return {view: str(reader.rows(view)) for view in _VIEWS}


def _logs(store: Path) -> dict[str, Content]:
    files = log_files(run_path(store, RUN) / EVENTS_DIR)
    return {name: content(path) for name, path in files.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run, and output of a worker that is dropped."""
    store = tmp_path_factory.mktemp("made")
    cases = [opinfo_case(name) for name in ("add", "mul")]
    plan = make_plan(run=RUN, device="cpu", profile="default", cases=cases)
    results = [
        ended(cases[0], Stage.TEST),
        ended(cases[1], Stage.TEST, Outcome.FAILED_NUMERIC, message="off"),
    ]
    end = RunEnded(run=RUN, state=RunState.COMPLETE)
    folder = write_run(run_path(store, RUN), plan, {"w0": results, "supervisor": [started(plan), end]})
    ingest(store, folder)
    (folder / OUTPUT_DIR).mkdir()
    (folder / OUTPUT_DIR / "w8.log").write_text("hello")
    return store


def test_killed_before_each_step_nothing_is_lost(made: Path, tmp_path: Path) -> None:
    views, logs = _views(made), _logs(made)
    deaths = 0
    for step in range(_MOST_STEPS):
        store = Path(shutil.copytree(made, tmp_path / f"store-{step}"))
        ended = subprocess.run(
            [sys.executable, "-c", _KILLED_AT, str(store), str(step)],
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        deaths += 1
        assert (_views(store), _logs(store)) == (views, logs), f"killed at step {step}"
        assert [one for one in check(store) if one.weight is Weight.ERROR] == []
        assert ingest(store, run_path(store, RUN)).records == 0
        compact(store)
        assert (_views(store), _logs(store)) == (views, logs), f"done again after step {step}"
        assert left_over(run_path(store, RUN)) == []
        assert [path.name for path in store.glob(".coverage*")] == []
        shutil.rmtree(store)
    else:
        pytest.fail("it was never done")
    assert deaths >= 2 * 3 + 4, "each of two logs is written, renamed and removed, and so is the database"
    rebuild(store)
    assert _views(store) == views
