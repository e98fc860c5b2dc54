"""Scripts of ``harness repro``, run as processes, fail as the run did, by the failure's signature."""

from __future__ import annotations

import ast
import fnmatch
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import results
from harness.cli import main
from results.signature import signature
from tests.harness.night import Night

pytestmark = pytest.mark.nightly


def _script(store: Path, case: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Write the script of a case; give the command that was printed."""
    assert main(["repro", case, "--store", str(store), "--output", str(path)]) == 0
    said = capsys.readouterr().err
    return said.split("harness: again: ")[1].splitlines()[0]


def _run(script: Path, faults: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TORCHNEURON_FAULTS": faults}
    return subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        cwd=script.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def _told(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """The outcome that a script printed, and the signature of what it said."""
    lines = done.stdout.partition("outcome: ")[2]
    outcome, _, rest = lines.partition("\nexception: ")
    exception, _, message = rest.partition("\nmessage: ")
    return outcome, signature(exception or outcome, message.rstrip("\n"))


FAULTS = "aten::eq.Tensor:error@1;aten::special_bessel_j0:nan@1;aten::sub.Tensor:error@1;aten::gelu:error@1"
"""Each strikes once a process; the first two have no derivative, and so no other check to be struck."""

CASES = {
    "opinfo::op_db::eq::forward[float32]": "failed_exception",
    "opinfo::op_db::special.bessel_j0::forward[float32]": "failed_numeric",
    "opinfo::op_db::sub::backward[float32]": "failed_exception",
}
TEST = """
import torch

def test_equal():
    torch.ones(2, device="neuron").eq(torch.ones(2, device="neuron"))
"""
SELECTION = '[ops]\nfew = ["eq", "special.bessel_j0", "sub"]\n'


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, hub: str) -> Path:
    """A store with a run of three operators, a model and a test of pytest, each hurt by a fault."""
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "few.toml").write_text(SELECTION)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_eq.py").write_text(TEST)
    chosen = {
        "opinfo_selection": str(folder / "few.toml"),
        "opinfo_dtypes": ["float32"],
        "opinfo_checks": ["forward", "backward"],
        "opinfo_databases": ["op_db"],
        "pytest_root": str(folder / "tests"),
        "pytest_paths": ["."],
    }
    fields = [f"--set={name}={json.dumps(value)}" for name, value in chosen.items()]
    chosen_suites = ("--suites=opinfo,models,pytest", "--model-filter=mirror/tiny-bert")
    night = Night(folder / "store", hub, *chosen_suites, *fields, "--report-only", faults=FAULTS)
    code, output = night.wait()
    assert code == 0, output
    return folder / "store"


@pytest.mark.parametrize("case", CASES)
def test_a_script_fails_with_the_signature_of_the_run(
    faulty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    with results.open(faulty) as reader:
        (row,) = reader.rows("v_cases", case_id=case)
    assert row["outcome"] == CASES[case]
    script = tmp_path / "again.py"
    command = shlex.split(_script(faulty, case, script, capsys))
    assert command[:4] == ["harness", "run", "--suite", "opinfo"]
    assert fnmatch.fnmatchcase(case, command[command.index("--test-filter") + 1])
    assert _needs_harness(script) == ("::forward" not in case)

    failed = _run(script, FAULTS)
    assert failed.returncode == 1, failed.stderr
    assert _told(failed) == (row["outcome"], row["signature"])
    well = _run(script)
    assert (well.returncode, well.stdout[:15]) == (0, "outcome: passed"), well.stdout


def test_the_script_of_a_model_fails_in_the_same_stage(
    faulty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with results.open(faulty) as reader:
        (row,) = reader.rows("v_cases", kind="model")
    assert (row["outcome"], row["stage"]) == ("failed_exception", "forward")
    script = tmp_path / "again.py"
    command = shlex.split(_script(faulty, row["case_id"], script, capsys))
    assert command[:3] == ["harness", "probe", row["case_id"].removeprefix("model::")]
    failed = _run(script, FAULTS)
    assert "stage: forward\n" in failed.stdout, failed.stderr
    assert _told(failed) == (row["outcome"], row["signature"])


def test_a_test_of_pytest_is_called_as_it_was(
    faulty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with results.open(faulty) as reader:
        (row,) = reader.rows("v_cases", kind="pytest")
    script = tmp_path / "again.py"
    assert "test_eq.py::test_equal" in _script(faulty, row["case_id"], script, capsys)
    failed = _run(script, FAULTS)
    assert failed.returncode == 1, failed.stderr
    assert f"{row['exception']}: {row['message']}".splitlines()[0] in failed.stdout
    assert _run(script).returncode == 0


def _needs_harness(script: Path) -> bool:
    tree = ast.parse(script.read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return any(str(name).split(".")[0] in ("harness", "suites", "results") for name in imported)


def test_a_case_that_the_run_has_not_is_one_sentence(
    faulty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["repro", "opinfo::op_db::e::forward[float32]", "--store", str(faulty)]) == 2
    assert "did you mean 'opinfo::op_db::eq::forward[float32]'" in capsys.readouterr().err
