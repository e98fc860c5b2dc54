"""The plugin's record when the run it records is hurt: deaths, broken files, interrupts."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from results.events import CANNOT_LOG_EXIT, Entered, RunEnded, WorkerEnded
from results.vocabulary import Fate, Outcome, RunState
from tests.suites.conftest import ROOT

pytest_plugins = ["pytester"]

MODES = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])


def test_a_worker_that_is_killed_costs_its_own_test_only(pytester, record):
    pytester.makepyfile(
        test_deadly="""
            import os, signal, pytest
            @pytest.mark.parametrize("n", range(8))
            def test_fine(n): pass
            def test_kills(): os.kill(os.getpid(), signal.SIGKILL)
            def test_exits(): os._exit(3)
        """
    )
    _, run = record("-n", "2")
    assert len(run.plan.cases) == 10
    counts = Counter(run.outcomes.values())
    assert counts == {Outcome.PASSED: 8, Outcome.CRASHED: 2}
    killed, left = run.ended("test_kills"), run.ended("test_exits")
    assert "signal 9 (SIGKILL)" in killed.message
    assert "code 3" in left.message
    deaths = {event.case: event for event in run.of(WorkerEnded) if event.case}
    assert (deaths[killed.case].fate, deaths[killed.case].signal) == (Fate.SIGNALLED, 9)
    assert (deaths[left.case].fate, deaths[left.case].exit_code) == (Fate.EXITED, 3)
    assert run.of(RunEnded)[0].state is RunState.COMPLETE


@MODES
def test_what_collection_loses_is_a_case(pytester, record, workers):
    pytester.makepyfile(
        test_broken="import does_not_exist",
        test_absent='import pytest\npytest.skip("no such library", allow_module_level=True)',
        test_good="def test_good(): pass",
    )
    _, run = record(*workers, "--continue-on-collection-errors")
    assert run.outcomes == {
        "pytest::test_broken.py::-::<collection>": Outcome.COLLECTION_ERROR,
        "pytest::test_absent.py::-::<collection>": Outcome.SKIPPED_UPSTREAM,
        "pytest::test_good.py::-::test_good": Outcome.PASSED,
    }
    broken = run.ended("test_broken.py::-::<collection>")
    assert "No module named 'does_not_exist'" in broken.message
    absent = run.ended("test_absent.py::-::<collection>")
    assert absent.facts["reason"] == "no such library"
    assert absent.facts["location"] == "test_absent.py:2"


@MODES
def test_a_run_of_which_nothing_could_be_collected_is_recorded(pytester, record, workers):
    pytester.makepyfile(test_broken="import does_not_exist")
    result, run = record(*workers)
    assert result.ret != pytest.ExitCode.OK
    assert list(run.outcomes.values()) == [Outcome.COLLECTION_ERROR]


def test_an_interrupt_leaves_the_rest_without_a_result_and_says_so(pytester, record):
    pytester.makepyfile(
        test_stop="""
            def test_a(): pass
            def test_b(): raise KeyboardInterrupt("enough")
            def test_c(): pass
        """
    )
    result, run = record()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert run.outcomes == {"pytest::test_stop.py::-::test_a": Outcome.PASSED}
    assert len(run.plan.cases) == 3
    assert run.of(Entered)[-1].case.endswith("test_b")
    (ended,) = run.of(RunEnded)
    assert ended.state is RunState.INTERRUPTED
    assert "KeyboardInterrupt" in ended.reason


@MODES
def test_stopping_at_the_first_failure_is_not_a_complete_run(pytester, record, workers):
    tests = "".join(f"def test_{n}(): assert {n} > 0\n" for n in range(6))
    pytester.makepyfile(test_many=f"import time\n{tests}")
    _, run = record(*workers, "-x")
    (ended,) = run.of(RunEnded)
    assert ended.state is RunState.INTERRUPTED
    assert "stopping after 1 failure" in ended.reason


def test_a_job_whose_log_cannot_be_opened_ends_with_the_code_that_says_so(pytester, monkeypatch):
    """Without it the supervisor would take the session for one that died while it collected."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("def test_fine(): pass")
    (pytester.path / "file").write_text("")
    log = pytester.path / "file" / "log.jsonl"
    job = pytester.path / "job.json"
    job.write_text(json.dumps({"log": str(log), "attempt": 1, "cases": []}))
    result = pytester.runpytest_subprocess("-p", "suites.pytest_plugin", f"--harness-job={job}", timeout=60)
    assert result.ret == CANNOT_LOG_EXIT
    result.stderr.fnmatch_lines([f"*{log} could not be opened: File exists"])
    result.stderr.no_fnmatch_line("*Traceback*")
