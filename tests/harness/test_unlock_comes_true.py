"""A prediction of the unlock ranking on the real device, and the lowerings that make it true."""

from __future__ import annotations

from pathlib import Path

import pytest

import results
from results.unlock import By, rank, unlocked
from results.unlock_report import read_blocked
from tests.harness.night import Night

pytestmark = pytest.mark.nightly

FIRST, SECOND, THIRD = "aten::_softmax_backward_data", "aten::gelu", "aten::_softmax"
"""T5 lacks the first, BERT the first and second, and the tests of softmax the third."""

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
    missing = {FIRST, SECOND, THIRD}
    monkeypatch.setenv("TORCHNEURON_WITHOUT", ";".join(missing))
    before = _night(tmp_path, hub)
    with results.open(tmp_path) as reader:
        blocked = read_blocked(reader, reader.latest_run())
    ranking = rank(blocked, 2)
    assert [step.ops for step in ranking.steps] == [(FIRST,), (SECOND,)]
    assert [step.total.models for step in ranking.steps] == [1, 2]
    assert unlocked(blocked, [SECOND]).models == 0
    assert rank(blocked, 1, By.TESTS).ops == (THIRD,)

    lowered: set[str] = set()
    for step in ranking.steps:
        lowered |= set(step.ops)
        monkeypatch.setenv("TORCHNEURON_WITHOUT", ";".join(missing - lowered))
        after = _night(tmp_path, hub)
        assert after == {case: lacks - lowered for case, lacks in before.items()}
        freed = {case for case, lacks in before.items() if lacks and not after[case]}
        assert freed == {case for case, lacks in before.items() if lacks and lacks <= lowered}
        assert sum(case.startswith("model::") for case in freed) == step.total.models
        assert len(freed) == step.total.models + step.total.tests
