"""A prediction of the unlock ranking on the real device, and the lowerings that make it true."""

from __future__ import annotations

from pathlib import Path

import pytest

import results
from results.unlock import By, rank, unlocked
from results.unlock_report import read_blocked
from tests.harness.night import Night

pytestmark = pytest.mark.nightly

TOGETHER = ("aten::gelu", "aten::native_layer_norm")
SWITCHED_OFF = (*TOGETHER, "aten::_softmax")
TESTS = "opinfo::op_db::softmax::forward*"


def _night(store: Path, hub: str) -> dict[str, frozenset[str]]:
    """Run BERT, T5 and one operator's tests; give what keeps each case from the device alone."""
    chosen = ("--suites", "models,opinfo", "--model-filter", "mirror/tiny-[bt]*", "--test-filter", TESTS)
    code, output = Night(store, hub, "--profile", "smoke", *chosen, "--report-only").wait()
    assert code == 0, output
    with results.open(store) as reader:
        run = reader.latest_run()
        cases = {
            row["case_id"]: frozenset[str]() for row in reader.rows("v_cases", run=run, outcome="passed")
        }
        for row in reader.rows("v_blocked", run=run):
            cases[row["case_id"]] = frozenset(row["ops"])
    return cases


def test_lowerings_free_the_cases_that_were_predicted_and_no_others(
    tmp_path: Path, hub: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHNEURON_WITHOUT", ";".join(SWITCHED_OFF))
    before = _night(tmp_path, hub)
    with results.open(tmp_path) as reader:
        blocked = read_blocked(reader, reader.latest_run())
        frees = unlocked(blocked, SWITCHED_OFF)
    predicted = {case for case, lacks in before.items() if lacks and lacks <= set(SWITCHED_OFF)}
    assert {case for case in predicted if case.startswith("model::")}
    assert (frees.models, frees.tests) == (
        sum(case.startswith("model::") for case in predicted),
        sum(case.startswith("opinfo::") for case in predicted),
    )
    assert rank(blocked, 2).ops == TOGETHER  # neither of them alone frees a model
    assert rank(blocked, 1, By.TESTS).ops == ("aten::_softmax",)

    monkeypatch.delenv("TORCHNEURON_WITHOUT")
    after = _night(tmp_path, hub)
    freed = {case for case, lacks in before.items() if lacks and not after[case]}
    assert freed == predicted
    assert after == {case: lacks - set(SWITCHED_OFF) for case, lacks in before.items()}
