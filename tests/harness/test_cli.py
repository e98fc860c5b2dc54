"""The command line: what it says of mistakes, in one sentence and with the right exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.cli import main
from results.vocabulary import Expectation, Outcome, RunState
from tests.results import hurt, ledgers
from tests.results.factory import COMPLETE_RUN, INCOMPLETE_RUN, make_store
from tests.results.ledgers import make_ledger


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "store"
    make_store(folder)
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report"], "there is no store"),
        (["gaps"], "there is no store"),
        (["skips"], "there is no store"),
        (["skips", "--format", "junit"], "invalid choice"),
        (["resume"], "holds no run to go on with"),
        (["resume", "nope"], "has no run 'nope'"),
        (["nightly", "--junit", "nowhere/junit.xml"], "--junit nowhere/junit.xml"),
        (["nightly", "--junit", "."], "not a file in a folder"),
        (["report", "--gate"], "there is no store"),
        (["gaps", "--format", "junit"], "invalid choice"),
        (["nightly", "--gate", "--report-only"], "not allowed with"),
        (["ingest"], "name a run's folder"),
        (["ingest", "nowhere"], "it is not a run's folder"),
        (["nightly", "--profile", "smok"], "did you mean 'smoke'"),
        (["nightly", "--set", "workers"], "KEY=VALUE"),
        (["nightly", "--set", "wrokers=1"], "did you mean 'workers'"),
        (["nightly", "--suites", "opinfo,nope"], "unknown suite 'nope'"),
        (["probe", "-", "--profile", "nope"], "no profile 'nope'"),
        (["dashboard", "--port", "0"], "TCP port"),
        (["nightly", "--workers", "-1"], "whole number"),
        (["frobnicate"], "invalid choice"),
        ([], "COMMAND"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HARNESS_STORE", raising=False)
    try:
        code = main(arguments)
    except SystemExit as stop:  # argparse's own way out
        code = int(stop.code or 0)
    said = capsys.readouterr().err
    assert code == 2
    assert words in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir()), "a mistake must leave nothing behind"


def test_a_run_that_is_not_there_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "nope", "--store", str(store)]) == 2
    assert "no run 'nope'" in capsys.readouterr().err


def test_a_report_of_an_incomplete_run_says_so_first(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", INCOMPLETE_RUN, "--store", str(store)]) == 0
    assert "INCOMPLETE" in capsys.readouterr().out.splitlines()[1]


def test_a_report_can_be_had_as_junit(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", COMPLETE_RUN, "--store", str(store), "--format", "junit"]) == 0
    root = ElementTree.fromstring(capsys.readouterr().out)
    assert (root.get("name"), root.get("tests")) == (COMPLETE_RUN, "208")


def test_junit_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    end = {"state": RunState.INTERRUPTED, "reason": "arrêté · 停"}
    hurt.one_case_store(tmp_path, Outcome.PASSED, Expectation.PASS, **end)
    command = [sys.executable, "-m", "harness.cli", "report", "--store", str(tmp_path), "--format", "junit"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    (error,) = ElementTree.fromstring(done.stdout).iter("error")
    assert error.attrib["message"].endswith("arrêté · 停")


def test_gaps_take_a_limit_and_a_format(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gaps", COMPLETE_RUN, "--store", str(store), "--format", "json", "--limit", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
    assert main(["gaps", COMPLETE_RUN, "--store", str(store), "--format", "json", "--limit", "0"]) == 0
    assert len(json.loads(capsys.readouterr().out)) > 1


def test_the_supervising_process_imports_no_torch() -> None:
    imports = "import harness.cli, harness.nightly, harness.probing, harness.doctor, sys"
    code = f"{imports}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_output_may_be_cut_by_its_reader(store: Path) -> None:
    command = f"{sys.executable} -m harness.cli report --store {store} --format json | head -c 10"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_skips_are_listed_and_told_anew_when_the_database_is_made_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules grow; what was recorded before they did is recognised by the evidence in its log."""
    make_ledger(tmp_path, older=True)
    assert main(["skips", "--store", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("UNCATEGORISED: 3 skips")
    assert main(["ingest", "--rebuild", "--store", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["skips", ledgers.RUN, "--format", "json", "--store", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["balance"]["uncategorised"] == 2
