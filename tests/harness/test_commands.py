"""The commands that need the device or a hub, as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import results
from suites.opinfo.checks import CHECKS
from tests.harness.night import MODELS

pytestmark = pytest.mark.nightly


def harness(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_a_probe_prints_the_stages_and_stays_out_of_the_nights(tmp_path: Path, hub: str) -> None:
    done = harness("probe", MODELS[0], "--hub", hub, "--store", str(tmp_path), "--quiet")
    assert done.returncode == 0, done.stderr
    for stage in ("fetch", "load", "forward", "backward", "compile"):
        assert stage in done.stdout
    assert harness("report", "--store", str(tmp_path)).returncode == 2, "there was no night"


def test_a_probe_of_a_model_that_is_not_there_is_one_sentence(tmp_path: Path, hub: str) -> None:
    done = harness("probe", "nobody/nothing", "--hub", hub, "--store", str(tmp_path))
    assert done.returncode == 2
    assert "has no model 'nobody/nothing'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_hub_that_does_not_answer_is_an_infrastructure_error(tmp_path: Path) -> None:
    done = harness("plan", "--hub", "http://127.0.0.1:9", "--suites", "models", "--store", str(tmp_path))
    assert done.returncode == 4
    assert "could not list its models" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_lists_what_would_run_and_runs_nothing(tmp_path: Path, hub: str) -> None:
    done = harness(
        "plan", "--hub", hub, "--store", str(tmp_path), "--test-filter", "*::add::*", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    kinds = [row["kind"] for row in json.loads(done.stdout)]
    assert (kinds.count("model"), kinds.count("opinfo")) == (len(MODELS), 3)
    assert not (tmp_path / "runs").exists()


def test_a_suite_is_run_whole_by_the_profile_of_its_name(tmp_path: Path) -> None:
    """Every check in every documented dtype, where a night has one check in three dtypes."""
    done = harness(
        "run", "--suite", "opinfo", "--store", str(tmp_path), "--test-filter", "*::add::*", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    with results.open(tmp_path) as store:
        (run,) = store.rows("v_runs")
        cases = store.rows("v_cases")
    assert run["profile"] == "opinfo"
    checks = {case["case_id"].partition("::add::")[2].partition("[")[0] for case in cases}
    assert checks == set(CHECKS)
    assert len(cases) == 9 * len(CHECKS)
    assert {case["outcome"] for case in cases} <= {"passed", "skipped_upstream"}


def test_the_doctor_finds_the_device_and_its_compiler_well(tmp_path: Path) -> None:
    done = harness("doctor", "--store", str(tmp_path), "--format", "json")
    assert done.returncode == 0, done.stdout
    checks = {row["check"]: row["found"] for row in json.loads(done.stdout)}
    assert "ran on the device" in checks["eager"]
    assert "compiled 1 graph" in checks["compile"]


def test_the_doctor_names_what_is_ill(tmp_path: Path) -> None:
    done = harness("doctor", "--device", "mps", "--store", str(tmp_path), "--format", "json")
    assert done.returncode == 4
    ill = {row["check"]: row["what to do"] for row in json.loads(done.stdout) if row[""] != "ok"}
    assert "device" in ill
    assert all(ill.values())


def test_any_pytest_run_can_be_taken_into_the_store(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_good(): pass\ndef test_bad(): assert 0\n")
    pytest_run = [sys.executable, "-m", "pytest", "-q", "test_it.py", "--harness-log", "night"]
    assert subprocess.run(pytest_run, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    done = harness("ingest", "night", "--store", "store", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with results.open(tmp_path / "store") as store:
        rows = store.rows("v_cases", run=store.latest_run())
    assert sorted(row["outcome"] for row in rows) == ["failed_exception", "passed"]
