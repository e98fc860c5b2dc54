"""Workers that are hurt in the middle of a night: one case pays, every other has its result."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import results
from results.vocabulary import Fate
from tests.harness.night import FEW_TESTS, MODELS, Night, outcomes

pytestmark = pytest.mark.nightly

CONVOLUTION = "aten::convolution"
"""Of the shared mirror's models only the ResNet executes it."""


def others_are_unharmed(store: Path, victim: str) -> None:
    rows = outcomes(store)
    rest = [row for row in rows if not row[0].startswith(victim)]
    assert len(rest) == len(rows) - 1
    assert len(rows) > len(MODELS), "the tests must be among them"
    assert {outcome for _, _, outcome in rest} <= {"passed", "unsupported"}, rest
    with results.open(store) as reader:
        run = reader.latest_run()
        assert reader.rows("v_completeness", run=run)[0]["with_result"] == len(rows)


def test_a_worker_killed_from_outside_leaves_its_case_crashed(tmp_path: Path, hub: str) -> None:
    night = Night(
        tmp_path, hub, "--test-filter", FEW_TESTS, "--set", "attempts=1", faults=f"{CONVOLUTION}:hang"
    )
    entered, pid = night.until_entered(
        lambda event: event.case.startswith("model::mirror/tiny-resnet") and event.stage == "forward"
    )
    os.kill(pid, signal.SIGKILL)
    code, output = night.wait()
    assert code == 1, output
    assert (entered.case, "forward", "crashed") in outcomes(tmp_path)
    assert "SIGKILL" in _message(tmp_path, entered.case)
    others_are_unharmed(tmp_path, "model::mirror/tiny-resnet")


def test_a_model_that_hangs_is_ended_at_its_deadline(tmp_path: Path, hub: str) -> None:
    night = Night(
        tmp_path,
        hub,
        "--test-filter",
        FEW_TESTS,
        "--set",
        "attempts=1",
        "--set",
        "deadlines.forward=20",
        faults=f"{CONVOLUTION}:hang",
    )
    code, output = night.wait()
    assert code == 1, output
    (row,) = [row for row in outcomes(tmp_path) if row[0].startswith("model::mirror/tiny-resnet")]
    assert row[1:] == ("forward", "timed_out")
    assert "longer than 20 s" in _message(tmp_path, row[0])
    assert _fates(tmp_path) == [Fate.KILLED_AT_DEADLINE]
    others_are_unharmed(tmp_path, "model::mirror/tiny-resnet")


def test_a_segmentation_fault_is_named_and_the_batch_goes_on(tmp_path: Path, hub: str) -> None:
    night = Night(
        tmp_path, hub, "--suites", "opinfo", "--test-filter", "opinfo::op_db::[ab]*float32*",
        faults="aten::bmm:crash",
    )  # fmt: skip
    code, output = night.wait()
    assert code == 1, output
    rows = outcomes(tmp_path)
    crashed = [case for case, _, outcome in rows if outcome == "crashed"]
    assert "opinfo::op_db::bmm::forward[float32]" in crashed
    assert all("SIGSEGV" in _message(tmp_path, case) for case in crashed)
    assert len(rows) - len(crashed) > 10
    assert "not_run" not in {outcome for _, _, outcome in rows}


def test_a_device_that_is_not_there_is_one_sentence_and_exit_4(tmp_path: Path, hub: str) -> None:
    night = Night(tmp_path, hub, "--suites", "opinfo", "--test-filter", FEW_TESTS, "--set", "device=nonesuch")
    code, output = night.wait()
    assert code == 4
    assert "nonesuch" in output
    assert "Traceback" not in output


def _message(store: Path, case: str) -> str:
    with results.open(store) as reader:
        return str(reader.rows("v_cases", run=reader.latest_run(), case_id=case)[0]["message"])


def _fates(store: Path) -> list[str]:
    with results.open(store) as reader:
        return [row["fate"] for row in reader.rows("v_workers", run=reader.latest_run(), death=True)]
