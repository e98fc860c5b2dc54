"""A small night, end to end, on the simulated device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import results
from results.events import Ended, OpsRecorded
from results.operators import DATA_MOVEMENT
from results.plan import load_plan
from results.vocabulary import DEVICE_STAGES, Outcome
from tests.harness.night import FEW_TESTS, MODELS, Night

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory, hub: str) -> tuple[Night, int, str]:
    store = tmp_path_factory.mktemp("night") / "store"
    night = Night(store, hub, "--test-filter", FEW_TESTS)
    return night, *night.wait()


def test_it_ends_well_and_says_what_it_found(night: tuple[Night, int, str]) -> None:
    _, code, output = night
    assert code == 0, output
    for word in ("load", "forward", "backward", "compile", "opinfo", "coverage.duckdb", "harness dashboard"):
        assert word in output


def test_every_planned_case_has_a_result(night: tuple[Night, int, str]) -> None:
    folder = night[0].folder()
    assert folder is not None
    planned = {case.id for case in load_plan(folder).cases}
    with results.open(night[0].store) as store:
        run = store.latest_run()
        assert store.rows("v_completeness", run=run)[0]["complete"]
        assert {row["case_id"] for row in store.rows("v_cases", run=run)} == planned
        counts = sum(row["cases"] for row in store.rows("v_outcomes", run=run))
    assert counts == len(planned)
    assert {case.split("@")[0] for case in planned if case.startswith("model::")} == {
        f"model::{name}" for name in MODELS
    }


def test_models_pass_every_stage_they_are_supported_in(night: tuple[Night, int, str]) -> None:
    with results.open(night[0].store) as store:
        rows = store.rows("v_models", run=store.latest_run())
    assert len(rows) == len(MODELS)
    for row in rows:
        assert [row[stage] for stage in ("load", "forward", "backward")] == ["passed"] * 3, row
        assert row["compile"] in ("passed", "unsupported"), row
        assert row["device_calls"] > 0


def test_each_stage_on_the_device_says_which_ops_ran_where(night: tuple[Night, int, str]) -> None:
    recorded: dict[str, set[str]] = {}
    for event in night[0].events():
        if isinstance(event, OpsRecorded):
            recorded.setdefault(event.case, set()).add(event.stage)
            assert all(call.device_calls + call.fallback_calls > 0 for call in event.calls)
    passed: dict[str, set[str]] = {}
    for event in night[0].events():
        if isinstance(event, Ended) and event.outcome is Outcome.PASSED and event.stage in DEVICE_STAGES:
            passed.setdefault(event.case, set()).add(event.stage)
    for case, stages in passed.items():
        assert stages <= recorded[case], case


def test_gaps_are_the_called_ops_whose_kernels_fell_back(night: tuple[Night, int, str]) -> None:
    fell_back = {
        call.called
        for event in night[0].events()
        if isinstance(event, OpsRecorded)
        for call in event.calls
        if call.fallback_calls and call.executed not in DATA_MOVEMENT
    }
    with results.open(night[0].store) as store:
        assert {row["op"] for row in store.rows("v_gaps", run=store.latest_run())} == fell_back


def test_the_report_can_be_had_again_in_every_format(night: tuple[Night, int, str]) -> None:
    for form in ("table", "json", "csv", "md", "junit"):
        done = _harness("report", "--store", str(night[0].store), "--format", form)
        assert done.returncode == 0, done.stderr
        if form == "json":
            assert json.loads(done.stdout)["complete"] is True
        if form == "junit":
            assert {suite.get("name") for suite in ElementTree.fromstring(done.stdout)} == {"model", "opinfo"}


def test_the_database_can_be_made_anew_from_the_logs(night: tuple[Night, int, str]) -> None:
    def state() -> list[dict[str, object]]:
        with results.open(night[0].store) as store:
            return store.rows("v_cases") + store.rows("v_ops") + store.rows("v_runs")

    before = state()
    (night[0].store / "coverage.duckdb").unlink()
    done = _harness("ingest", "--rebuild", "--store", str(night[0].store))
    assert done.returncode == 0, done.stderr
    assert state() == before


def _harness(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_nothing_is_written_outside_the_store(night: tuple[Night, int, str]) -> None:
    store: Path = night[0].store
    assert [path.name for path in store.parent.iterdir()] == [store.name]
    assert {path.name for path in store.iterdir() if not path.name.startswith(".")} == {
        "cache",
        "coverage.duckdb",
        "runs",
    }
