"""``harness audit`` on a real run of small tests, and ``harness expectations`` from the same run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import results
from harness.auditing import audit_store
from harness.cli import main
from results.expectations import load_expectations
from tests.harness.night import Night

pytestmark = pytest.mark.nightly

FILE = "pytest::test_small.py"
TESTS = """
import os, unittest
import pytest, torch

def on_device(): return torch.ones(2, device="neuron").sum().item()

@pytest.mark.skip(reason="said to be broken")
def test_mended(): assert on_device() == 2
@pytest.mark.xfail(reason="known")
def test_xfail(): assert on_device() == 3
@pytest.mark.skip(reason="kills the process")
def test_kills(): os.abort()
class TestIt(unittest.TestCase):
    @unittest.skip("not yet")
    def test_unittest(self): raise ValueError("still not")
    def test_skips_itself(self): self.skipTest("needs two chips")
def test_known(): assert 1 == 2
def test_other(): assert on_device() == 4
def test_slow(): assert on_device() == 2
def test_new(): torch.ones(2, device="neuron").to_sparse()
"""
GATED = """
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCUDA
from torch.testing._internal.common_utils import TestCase, slowTest

class TestGate(TestCase):
    @onlyCUDA
    def test_gated(self, device): self.assertEqual(torch.device(device).type, "neuron")
    @slowTest
    def test_slow_gated(self, device): self.assertEqual(torch.ones(2, device=device).sum().item(), 2)

instantiate_device_type_tests(TestGate, globals())
"""
EXPECTED = f"""# Of these tests.
[[expect]]
id = "{FILE}::-::test_known"
expectation = "fail"
category = "device_bug"
reason = "one is not two"
added = 2026-11-01
review_by = 2026-11-15

[[expect]]
id = "{FILE}::-::test_other"
expectation = "fail"
outcome = "failed_exception"
signature = "0123456789abcdef"
category = "device_bug"
reason = "another failure, once"
added = 2026-11-01

# It takes an hour.
[[expect]]
id = "{FILE}::-::test_slow"
expectation = "skip"
category = "slow"
reason = "takes an hour"
added = 2026-11-01

[[expect]]
id = "{FILE}::-::test_gone"
expectation = "fail"
category = "device_bug"
reason = "it was there"
added = 2026-11-01
"""


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store with one run, and the expectation file that it was planned with."""
    folder = tmp_path_factory.mktemp("audited")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_small.py").write_text(TESTS)
    (folder / "tests" / "test_gated.py").write_text(GATED)
    expectations = folder / "expected.toml"
    expectations.write_text(EXPECTED)
    settings = {"pytest_root": str(folder / "tests"), "pytest_paths": ["."], "attempts": 1}
    settings["expectations"] = [str(expectations)]
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    run = Night(folder / "store", "embedded", "--suites", "pytest", "--device", "neuron", *options)
    code, output = run.wait()
    assert code == 1, output
    return folder / "store", expectations


def answers(output: str) -> dict[str, tuple[str, str]]:
    return {row["example"].rpartition("::")[2]: (row["answer"], row["found"]) for row in json.loads(output)}


def test_an_audit_says_of_each_claim_whether_it_still_holds(
    night: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    store, _ = night
    runs = len(results.open(store).rows("v_runs"))
    arguments = ["audit", "--store", str(store), "--quiet", "--format", "json"]
    assert main(arguments) == 1
    output = capsys.readouterr()
    found = answers(output.out)
    assert {test: answer for test, (answer, _) in found.items()} == {
        "test_mended": "now passes",
        "test_slow": "now passes",
        "test_gated": "now passes",
        "test_slow_gated": "now passes",
        "test_other": "fails for another reason",
        "test_gone": "no longer exists",
        "test_known": "still true",
        "test_xfail": "still true",
        "test_kills": "still true",
        "test_unittest": "still true",
        "test_skips_itself": "cannot be audited",
    }
    assert found["test_mended"][1] == "in 1 audit"
    assert "SIGABRT" in found["test_kills"][1]
    assert "needs two chips" in found["test_skips_itself"][1]
    overdue = [row["example"] for row in json.loads(output.out) if row["overdue"]]
    assert overdue == [f"{FILE}::-::test_known"]
    assert "4 now passes, 1 fails for another reason, 1 no longer exists" in output.err
    with results.open(store) as reader, results.open(audit_store(store)) as own:
        assert len(reader.rows("v_runs")) == runs, "an audit is no night"
        workers = own.rows("v_workers")
    assert {worker["cases"] for worker in workers} == {1}, "each case has a process of its own"

    assert main([*arguments, "--filter", "*test_mended"]) == 1
    assert answers(capsys.readouterr().out)["test_mended"][1] == "in 2 audits over 0 days"
    assert main([*arguments, "--filter", "*test_xfail"]) == 0
    assert main([*arguments, "--filter", "*test_m*", "--limit", "1", "--format", "table"]) == 1
    assert main([*arguments, "--filter", "nothing"]) == 0
    assert "nothing to audit" in capsys.readouterr().err


def test_an_update_prints_its_diff_and_leaves_nothing_unexpected(
    night: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    store, expectations = night
    run = results.open(store).latest_run()
    arguments = ["expectations", "update", "--store", str(store), "--from", run]
    assert main([*arguments, "--dry-run"]) == 0
    dry = capsys.readouterr()
    assert f'+id = "{FILE}::-::test_new"' in dry.out
    assert "1 would be added, 0 would be removed" in dry.err
    assert expectations.read_text() == EXPECTED
    assert main(arguments) == 0
    assert capsys.readouterr().out == dry.out
    assert expectations.read_text().startswith(EXPECTED)
    (new,) = [e for e in load_expectations([expectations]) if e.pattern.endswith("test_new")]
    assert (new.category, new.outcome) == ("sparse", "failed_exception")
    assert main(arguments) == 0
    assert capsys.readouterr().out == "", "a second update has nothing to do"
    expectations.write_text(EXPECTED)


def test_a_check_names_file_line_and_the_nearest_id(
    night: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    store, expectations = night
    run = results.open(store).latest_run()
    assert main(["expectations", "check", "--store", str(store), "--from", run]) == 1
    line = EXPECTED[: EXPECTED.index("test_gone")].count("\n")
    said = capsys.readouterr().out
    assert said.startswith(f"{expectations}:{line}: '{FILE}::-::test_gone' matches no case; did it mean")
    expectations.write_text(EXPECTED.replace("reason", "reasn", 1))
    assert main(["expectations", "check", "--store", str(store), "--from", run]) == 2
    assert f"{expectations}:6: unknown key 'reasn'; did it mean 'reason'?" in capsys.readouterr().err
    expectations.write_text(EXPECTED)
