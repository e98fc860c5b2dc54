"""What contradicts is refused by name, and what does not is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import results
from results.events import Entered, OpCall, OpsRecorded, RunEnded, WorkerEnded
from results.ingest import ContradictionError, PlanMismatchError, ingest
from results.layout import database_path
from results.plan import EVENTS_DIR, PlanError, make_plan
from results.vocabulary import Fate, Outcome, RunState, Stage
from tests.results.factory import append, ended, make_run, model_case, opinfo_case, started, write_run

CASE = opinfo_case("a")
MODEL = model_case()
PLAN = make_plan(run="r1", device="neuron", profile="smoke", cases=[CASE, MODEL])
CALL = OpCall(called="aten::a", executed="aten::a", dtype="float32", device_calls=1)
OPS = OpsRecorded(case=CASE.id, attempt=1, stage=Stage.TEST, calls=(CALL,))
RESULT = ended(CASE, Stage.TEST)


def _negative(**fields: int) -> OpsRecorded:
    call = OpCall(called="aten::a", executed="aten::a", dtype="float32", **fields)
    return OpsRecorded(case=CASE.id, attempt=1, stage=Stage.TEST, calls=(call,))


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([RESULT, ended(CASE, Stage.TEST, Outcome.CRASHED)], "a second result for 'opinfo::a"),
        ([RESULT, RESULT], "a second result"),
        ([OPS, OPS], "a second record of op calls"),
        ([ended(opinfo_case("stranger"), Stage.TEST)], "'opinfo::stranger.*' is not in the plan"),
        ([Entered(case="x::y", attempt=1, stage=Stage.TEST)], "'x::y' is not in the plan"),
        ([ended(CASE, Stage.LOAD)], "has no stage load"),
        ([ended(MODEL, Stage.TEST)], "has no stage test"),
        ([_negative(device_calls=-1)], "negative count"),
        ([_negative(fallback_ns=2**70)], "out of range"),
        ([ended(CASE, Stage.TEST, attempt=2**40)], "out of range"),
        ([WorkerEnded(worker="w", fate=Fate.EXITED, exit_code=2**33)], "out of range"),
    ],
)
def test_a_contradicting_log_is_refused_whole_and_the_others_are_kept(
    tmp_path: Path, events: Sequence[Any], message: str
) -> None:
    good = [ended(MODEL, Stage.FETCH)]
    folder = write_run(tmp_path / "run", PLAN, {"a": good, "b": [started(PLAN), *events], "c": []})
    with pytest.raises(ContradictionError, match=message):
        ingest(tmp_path / "store", folder)
    with results.open(tmp_path / "store") as store:
        assert {row["log"] for row in store.query_rows("SELECT log FROM stage_results")} == {"a.jsonl"}
        assert store.query_rows("SELECT * FROM run_starts") == []
        state = store.rows("v_completeness")[0]
    assert not state["complete"]
    assert state["refused_logs"] == 1
    assert state["refused_why"].startswith("b.jsonl")


def test_two_logs_with_a_result_for_one_stage_contradict_each_other(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run", PLAN, {"a": [RESULT], "b": [ended(CASE, Stage.TEST, Outcome.CRASHED)]}
    )
    with pytest.raises(
        ContradictionError, match=r"b\.jsonl.*line 1 repeats what a\.jsonl:1 says of 'opinfo::a"
    ):
        ingest(tmp_path / "store", folder)
    with results.open(tmp_path / "store") as store:
        assert store.rows("v_cases", case_id=CASE.id)[0]["outcome"] == "passed"


def test_a_second_result_in_a_part_that_came_later_is_refused_too(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", PLAN, {"a": [RESULT]})
    ingest(tmp_path / "store", folder)
    append(folder, "a", [ended(CASE, Stage.TEST, Outcome.CRASHED)])
    report = ingest(tmp_path / "store", folder, strict=False)
    assert len(report.refused) == 1
    assert not report.complete


def test_a_refused_log_that_was_mended_is_taken(tmp_path: Path) -> None:
    end = RunEnded(run="r1", state=RunState.COMPLETE)
    plan = make_plan(run="r1", device="neuron", profile="smoke", cases=[CASE])
    folder = write_run(tmp_path / "run", plan, {"a": [RESULT, RESULT], "s": [started(plan), end]})
    store = tmp_path / "store"
    assert not ingest(store, folder, strict=False).complete
    for path in (folder, store / "runs" / "r1"):
        log = path / EVENTS_DIR / "a.jsonl"
        log.write_text(log.read_text().splitlines(keepends=True)[0])
    report = ingest(store, folder)
    assert (report.refused, report.complete) == ((), True)


def test_a_log_whose_beginning_changed_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "store" / "runs" / "r1", PLAN, {"a": [RESULT]})
    ingest(tmp_path / "store", folder)
    log = folder / EVENTS_DIR / "a.jsonl"
    log.write_text(log.read_text().replace("passed", "crashed"))
    with pytest.raises(ContradictionError, match="its beginning changed"):
        ingest(tmp_path / "store", folder)


def test_a_damaged_log_is_refused_by_line(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", PLAN, {"a": [started(PLAN), RESULT]})
    log = folder / EVENTS_DIR / "a.jsonl"
    log.write_text("garbage\n" + log.read_text().splitlines(keepends=True)[1])
    with pytest.raises(ContradictionError, match=r"a\.jsonl:1: not an event record"):
        ingest(tmp_path / "store", folder)


@pytest.mark.parametrize("wrong", [{"plan_hash": "0" * 64}, {"planned": 9}, {"run": "r2"}])
def test_logs_of_another_plan_store_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    store = tmp_path / "store"
    ingest(store, make_run(tmp_path / "other"))
    before = database_path(store).read_bytes()
    folder = write_run(tmp_path / "run", PLAN, {"a": [RESULT], "s": [started(PLAN, **wrong)]})
    with pytest.raises(PlanMismatchError, match="but the plan beside it is 'r1'"):
        ingest(store, folder)
    assert database_path(store).read_bytes() == before


def test_the_end_of_another_run_stores_nothing(tmp_path: Path) -> None:
    end = RunEnded(run="r2", state=RunState.COMPLETE)
    folder = write_run(tmp_path / "run", PLAN, {"s": [started(PLAN), end]})
    with pytest.raises(PlanMismatchError, match="ended run 'r2'"):
        ingest(tmp_path / "store", folder)


def test_one_run_id_with_two_plans_is_refused(tmp_path: Path) -> None:
    ingest(tmp_path / "store", write_run(tmp_path / "one", PLAN, {}))
    other = make_plan(run="r1", device="neuron", profile="smoke", cases=[CASE])
    with pytest.raises(PlanMismatchError, match="another run with the id 'r1'"):
        ingest(tmp_path / "store", write_run(tmp_path / "two", other, {}))


def test_a_log_from_elsewhere_that_differs_from_the_stores_is_refused(tmp_path: Path) -> None:
    ingest(tmp_path / "store", write_run(tmp_path / "one", PLAN, {"a": [RESULT]}))
    crashed = ended(CASE, Stage.TEST, Outcome.CRASHED)
    with pytest.raises(ContradictionError, match="not a continuation"):
        ingest(tmp_path / "store", write_run(tmp_path / "two", PLAN, {"a": [crashed]}))


def test_a_folder_that_is_no_run_is_refused_and_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="not a run's folder"):
        ingest(tmp_path / "store", tmp_path)
    assert not (tmp_path / "store").exists()
