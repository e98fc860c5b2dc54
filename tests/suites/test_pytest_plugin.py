"""The plugin records any pytest run, with and without xdist, whatever happens to it."""

from __future__ import annotations

import pytest

from results.events import Ended, Entered, RunEnded, RunStarted, WorkerEnded, WorkerStarted
from results.ingest import ingest
from results.vocabulary import Fate, Outcome, RunState
from tests.suites.conftest import ROOT

pytest_plugins = ["pytester"]

MODES = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])


EVERY_KIND = """
    import pytest, unittest

    def test_passes(): pass
    def test_fails(): assert 1 == 2
    def test_raises(): raise KeyError("gone")
    def test_runs_out(): raise MemoryError("no more")
    @pytest.mark.skip(reason="not here")
    def test_skipped(): pass
    def test_skips_itself(): pytest.skip("not today")
    @pytest.mark.xfail(reason="known bug", strict=True)
    def test_xfails(): assert False
    @pytest.mark.xfail(reason="no run", run=False)
    def test_xfails_unrun(): assert False
    @pytest.mark.xfail(reason="thought broken")
    def test_xpasses(): pass
    @pytest.mark.xfail(reason="surely broken", strict=True)
    def test_xpasses_strictly(): pass
    @pytest.fixture
    def broken(): raise OSError("no setup")
    def test_setup_fails(broken): pass
    @pytest.fixture
    def leaky():
        yield
        raise OSError("no teardown")
    def test_teardown_fails(leaky): pass
    @pytest.mark.parametrize("x", ["a", "b::c[d]", "e f"])
    def test_variants(x): pass
    class TestOuter:
        class TestInner:
            def test_method(self): pass
    class TestUnit(unittest.TestCase):
        def test_unit(self): self.assertEqual(1, 1)
        @unittest.skip("unit skip")
        def test_unit_skipped(self): pass
        @unittest.expectedFailure
        def test_unit_expected(self): self.fail()
        @unittest.expectedFailure
        def test_unit_unexpected(self): pass
        def test_subtests(self):
            for number in range(2):
                with self.subTest(number=number): self.assertEqual(number, 0)
"""

EXPECTED = {
    "-::test_passes": Outcome.PASSED,
    "-::test_fails": Outcome.FAILED_EXCEPTION,
    "-::test_raises": Outcome.FAILED_EXCEPTION,
    "-::test_runs_out": Outcome.OUT_OF_MEMORY,
    "-::test_skipped": Outcome.SKIPPED_UPSTREAM,
    "-::test_skips_itself": Outcome.SKIPPED_UPSTREAM,
    "-::test_xfails": Outcome.SKIPPED_UPSTREAM,
    "-::test_xfails_unrun": Outcome.SKIPPED_UPSTREAM,
    "-::test_xpasses": Outcome.PASSED,
    "-::test_xpasses_strictly": Outcome.FAILED_EXCEPTION,
    "-::test_setup_fails": Outcome.FAILED_EXCEPTION,
    "-::test_teardown_fails": Outcome.FAILED_EXCEPTION,
    "-::test_variants[a]": Outcome.PASSED,
    "-::test_variants[b::c[d]]": Outcome.PASSED,
    "-::test_variants[e f]": Outcome.PASSED,
    "TestOuter.TestInner::test_method": Outcome.PASSED,
    "TestUnit::test_unit": Outcome.PASSED,
    "TestUnit::test_unit_skipped": Outcome.SKIPPED_UPSTREAM,
    "TestUnit::test_unit_expected": Outcome.SKIPPED_UPSTREAM,
    "TestUnit::test_unit_unexpected": Outcome.FAILED_EXCEPTION,
    "TestUnit::test_subtests": Outcome.FAILED_EXCEPTION,
}


@MODES
def test_every_kind_of_ending(pytester, record, workers):
    pytester.makepyfile(test_all=EVERY_KIND)
    result, run = record(*workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert run.outcomes == {f"pytest::test_all.py::{test}": outcome for test, outcome in EXPECTED.items()}
    assert [case.id for case in run.plan.cases] == sorted(run.outcomes)

    raised = run.ended("test_raises")
    assert (raised.exception, raised.message) == ("KeyError", "'gone'")
    assert "def test_raises" in raised.traceback
    assert run.ended("test_setup_fails").facts["phase"] == "setup"
    assert run.ended("test_teardown_fails").facts["phase"] == "teardown"
    assert run.ended("::test_skipped").facts["reason"] == "not here"
    assert run.ended("::test_skips_itself").facts["location"].startswith("test_all.py:")
    assert run.ended("test_xfails").facts["xfail"] == "known bug"
    assert "surely broken" in run.ended("test_xpasses_strictly").message
    assert run.ended("test_xpasses").facts["xpass"] == "thought broken"
    assert all(event.seconds >= 0 for event in run.of(Ended))


@MODES
def test_each_test_is_entered_before_it_ends_and_the_run_is_framed(pytester, record, workers):
    pytester.makepyfile(
        test_four="def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\ndef test_d(): pass"
    )
    _, run = record(*workers, "--harness-device", "neuron", "--harness-suite", "mine")
    (started,), (ended,) = run.of(RunStarted), run.of(RunEnded)
    assert (started.planned, started.device, started.plan_hash) == (4, "neuron", run.plan.hash)
    assert started.run == ended.run == run.plan.run
    assert ended.state is RunState.COMPLETE
    assert started.environment["pytest"] == pytest.__version__
    assert all(case.suite == "mine" for case in run.plan.cases)
    for name, log in run.logs.items():
        if name == "controller":
            continue
        assert isinstance(log[0], WorkerStarted)
        for entered, result in zip(log[1::2], log[2::2], strict=True):
            assert isinstance(entered, Entered)
            assert isinstance(result, Ended)
            assert entered.case == result.case
    assert {event.worker for event in run.of(WorkerEnded)} == set(run.logs) - {"controller"}
    assert all(event.fate is Fate.FINISHED for event in run.of(WorkerEnded))


def test_ids_leave_out_the_device(pytester, record):
    pytester.makepyfile(
        test_generic="""
            import unittest
            class TestOpsNEURON(unittest.TestCase):
                def test_add_neuron_float32(self): pass
                def test_neuron(self): pass
            class TestFirstPRIVATEUSE1(unittest.TestCase):
                def test_sub_neuron(self): pass
            class TestTwins(unittest.TestCase):
                def test_to_neuron(self): pass
        """
    )
    _, run = record("--harness-device", "neuron")
    assert [case.id.removeprefix("pytest::test_generic.py::") for case in run.plan.cases] == [
        "TestFirst::test_sub",
        "TestOps::test",
        "TestOps::test_add_float32",
        "TestTwins::test_to_neuron",
    ]


@MODES
def test_the_store_takes_the_run(pytester, record, workers, tmp_path):
    pytester.makepyfile(test_all=EVERY_KIND)
    _, run = record(*workers)
    report = ingest(tmp_path / "store", run.folder)
    assert report.planned == report.with_result == len(EXPECTED)
    assert (report.missing, report.complete, report.refused) == (0, True, ())


def test_a_folder_that_holds_a_run_is_not_written_into(pytester, record):
    pytester.makepyfile(test_one="def test_a(): pass")
    _, first = record()
    result, second = record()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*a run is recorded there already*"])
    assert second.plan.run == first.plan.run


def test_nothing_collected_records_nothing(pytester, record):
    with pytest.raises(Exception, match=r"has no plan\.json"):
        record()
    assert not (pytester.path / "log").exists()


def test_without_the_option_the_plugin_is_not_there(pytester, monkeypatch):
    """Neither a folder nor a heavy import: the plugin is loaded by every pytest of its environment."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import sys
        def test_light(request):
            heavy = {"torch", "duckdb", "pandas", "suites.recording.controller"} & set(sys.modules)
            assert not heavy
            assert not request.config.pluginmanager.hasplugin("harness-controller")
        """
    )
    result = pytester.runpytest_subprocess("-p", "suites.pytest_plugin", timeout=60)
    result.assert_outcomes(passed=1)
    assert not list(pytester.path.rglob("plan.json"))
