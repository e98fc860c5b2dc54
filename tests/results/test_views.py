"""Each printed number, checked against a run whose numbers are known."""

from __future__ import annotations

from pathlib import Path

import pytest

import results
from results.events import Ended, Entered, OpCall, OpsRecorded, RunEnded, WorkerEnded, WorkerStarted
from results.ingest import ingest
from results.plan import make_plan
from results.vocabulary import MODEL_STAGES, Fate, Outcome, RunState, Stage
from tests.results import hurt
from tests.results.checks import make_checks
from tests.results.factory import (
    COMPLETE_RUN,
    INCOMPLETE_RUN,
    Expected,
    ended,
    model_case,
    opinfo_case,
    started,
    write_run,
)

EXPECTED = Expected()


@pytest.mark.parametrize(("run", "missing"), [(COMPLETE_RUN, 0), (INCOMPLETE_RUN, 3)])
def test_outcomes_verdicts_and_suites_each_add_up_to_the_plan(
    store: results.Store, run: str, missing: int
) -> None:
    planned = EXPECTED.models + EXPECTED.tests
    for view in ("v_outcomes", "v_verdicts"):
        assert store.view(view, run=run)["cases"].sum() == planned
    assert store.view("v_suites", run=run)["planned"].sum() == planned
    outcomes = store.view("v_outcomes", run=run, outcome="not_run")["cases"].sum()
    assert outcomes == missing == store.view("v_missing", run=run)["cases"].sum()


def test_the_funnel_leaves_out_what_could_not_be_fetched_and_says_so(store: results.Store) -> None:
    rows = store.rows("v_funnel", run=COMPLETE_RUN)
    assert [row["stage"] for row in rows] == list(MODEL_STAGES)
    assert tuple(row["passed"] for row in rows) == EXPECTED.passed
    assert {(row["planned"], row["counted"]) for row in rows} == {(EXPECTED.models, EXPECTED.counted_models)}
    assert rows[-1]["share"] == pytest.approx(2 / 7)
    assert rows[-1]["downloads_share"] == pytest.approx(1_200_000 / 3_400_000)


def test_a_stage_after_a_failed_one_is_not_run(store: results.Store) -> None:
    t5 = store.rows("v_models", run=COMPLETE_RUN, model_id="acme/tiny-t5")[0]
    assert [t5[stage] for stage in MODEL_STAGES] == [
        "passed",
        "passed",
        "failed_exception",
        "not_run",
        "not_run",
    ]
    assert (t5["outcome"], t5["stage"], t5["verdict"]) == ("failed_exception", "forward", "regression")


def test_a_models_row_says_what_ran_where(store: results.Store) -> None:
    gpt2 = store.rows("v_models", run=COMPLETE_RUN, model_id="acme/tiny-gpt2")[0]
    assert gpt2["fallback_ops"] == ["aten::cumsum", "aten::topk"]
    assert (gpt2["device_calls"], gpt2["fallback_calls"]) == (40, 8)
    assert gpt2["device_share"] == pytest.approx(40 / 48)
    gone = store.rows("v_models", run=COMPLETE_RUN, model_id="acme/gone")[0]
    assert (gone["device_share"], gone["fallback_ops"], gone["verdict"]) == (None, [], "incomplete")


def test_gaps_are_ranked_by_models_hit_and_named_as_called(store: results.Store) -> None:
    gaps = store.rows("v_gaps", run=COMPLETE_RUN)
    first = gaps[0]
    assert (first["op"], first["models"]) == (EXPECTED.first_gap, EXPECTED.first_gap_models)
    assert first["executed"] == ["aten::cumsum.out"]
    assert first["downloads"] == 2_400_000
    assert first["example_models"] == ["acme/tiny-bert", "acme/tiny-gpt2", "acme/tiny-llama"]
    assert [gap["rank"] for gap in gaps] == list(range(1, len(gaps) + 1))
    assert gaps[-1]["tests"] == 4
    assert gaps[-1]["dtypes"] == ["bfloat16", "bool", "float32", "int64"]


def test_a_view_that_had_to_run_on_the_cpu_is_a_gap(tmp_path: Path) -> None:
    def call(**calls: int) -> OpCall:
        return OpCall(called="aten::view", executed="aten::view", dtype="float32", **calls)

    calls = (call(device_calls=9), call(fallback_calls=1))
    ops = OpsRecorded(case=CASE.id, attempt=1, stage=Stage.TEST, calls=calls)
    with _store(tmp_path, ops, ended(CASE, Stage.TEST)) as store:
        assert [gap["op"] for gap in store.rows("v_gaps")] == ["aten::view"]
        assert store.rows("v_device_share")[0]["share"] == 0.0
        assert [row["role"] for row in store.rows("v_ops")] == ["metadata"]


def test_copies_and_views_are_marked_and_flatter_no_share(store: results.Store) -> None:
    moved = store.rows("v_ops", run=COMPLETE_RUN, data_movement=True)
    assert [row["called"] for row in moved] == ["aten::_copy_from"]
    viewed = store.rows("v_ops", run=COMPLETE_RUN, role="metadata")
    assert [(row["called"], row["device_calls"]) for row in viewed] == [("aten::view", 180)]
    share = store.rows("v_device_share", run=COMPLETE_RUN, kind="model")[0]
    assert (share["device_calls"], share["fallback_calls"]) == (180, 16)
    assert share["movement_calls"] == moved[0]["device_calls"] == 750


def test_equal_failures_are_one_row(store: results.Store) -> None:
    failures = store.rows("v_failures", run=COMPLETE_RUN)
    assert (failures[0]["cases"], failures[0]["outcome"]) == (4, "failed_numeric")
    assert failures[0]["pattern"] == "max abs error <number> exceeds <number>"
    assert sum(row["cases"] for row in failures if row["exception"] == "NotImplementedError") == 5
    assert not {"passed", "skipped_upstream", "not_run"} & {row["outcome"] for row in failures}


def test_verdicts_and_deaths(store: results.Store) -> None:
    verdicts = {row["verdict"]: row["cases"] for row in store.rows("v_verdicts", run=COMPLETE_RUN)}
    assert verdicts["regression"] == EXPECTED.regressions
    assert verdicts["known_failure"] == 1
    assert verdicts["unexpected_pass"] == 2
    deaths = store.rows("v_workers", run=COMPLETE_RUN, death=True)
    assert [(row["worker"], row["signal"], row["pid"]) for row in deaths] == [("w1", 11, 101), ("w2", 9, 102)]
    assert len(deaths) == EXPECTED.deaths


def test_op_routes_count_each_called_name_once(store: results.Store) -> None:
    routes = store.rows("v_op_routes", run=COMPLETE_RUN)[0]
    assert (routes["device_only"], routes["both"], routes["fallback_only"], routes["ops"]) == (40, 0, 12, 52)


def _store(tmp_path: Path, *events: object, cases: tuple = (opinfo_case("a"),)) -> results.Store:
    plan = make_plan(run="r1", device="neuron", profile="smoke", cases=cases)
    ingest(tmp_path / "store", write_run(tmp_path / "run", plan, {"s": [started(plan), *events]}))
    return results.open(tmp_path / "store")


CASE = opinfo_case("a")
MODEL = model_case()


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "never began; the run has not ended"),
        ([RunEnded(run="r1", state=RunState.DEVICE_DOWN)], "never began; the run ended device_down"),
        (
            [Entered(case=CASE.id, attempt=1, stage=Stage.TEST)],
            "entered test, and its end was never recorded",
        ),
        ([ended(CASE, Stage.TEST, Outcome.NOT_RUN, message="device is down")], "device is down"),
    ],
)
def test_a_missing_result_has_a_reason(tmp_path: Path, events: list, reason: str) -> None:
    with _store(tmp_path, *events) as store:
        assert [row["reason"] for row in store.rows("v_not_run")] == [reason]
        assert store.rows("v_completeness")[0]["missing"] == 1


def test_a_model_that_stopped_between_stages_says_before_which(tmp_path: Path) -> None:
    done = [Entered(case=MODEL.id, attempt=1, stage=Stage.FETCH), ended(MODEL, Stage.FETCH)]
    with _store(tmp_path, *done, cases=(MODEL,)) as store:
        assert store.rows("v_not_run")[0]["reason"] == "stopped before load"


def test_a_worker_name_used_again_is_told_apart_by_time(tmp_path: Path) -> None:
    lives = [
        WorkerStarted(worker="w0", pid=1, cases=1),
        WorkerEnded(worker="w0", fate=Fate.SIGNALLED, signal=9),
        WorkerStarted(worker="w0", pid=2, cases=1),
        WorkerEnded(worker="w0", fate=Fate.FINISHED),
        WorkerEnded(worker="w9", fate=Fate.DIED_AT_START, exit_code=1),
    ]
    with _store(tmp_path, *lives) as store:
        found = [(row["worker"], row["pid"], row["death"]) for row in store.rows("v_workers")]
    assert found == [("w0", 1, True), ("w0", 2, False), ("w9", None, True)]


def test_calls_of_an_attempt_that_does_not_count_are_left_out(tmp_path: Path) -> None:
    def ops(attempt: int, calls: int) -> OpsRecorded:
        call = OpCall(called="aten::a", executed="aten::a", dtype="float32", fallback_calls=calls)
        return OpsRecorded(case=CASE.id, attempt=attempt, stage=Stage.TEST, calls=(call,))

    first: Ended = ended(CASE, Stage.TEST, Outcome.CRASHED)
    with _store(tmp_path, ops(1, 100), first, ops(2, 1), ended(CASE, Stage.TEST, attempt=2)) as store:
        assert store.rows("v_ops")[0]["fallback_calls"] == 1
        assert store.rows("v_gaps")[0]["fallback_calls"] == 1


def test_a_run_without_models_has_no_funnel_and_no_division_by_zero(tmp_path: Path) -> None:
    with _store(tmp_path, ended(CASE, Stage.TEST, Outcome.SKIPPED_UPSTREAM)) as store:
        assert store.rows("v_funnel") == []
        suite = store.rows("v_suites")[0]
        assert (suite["planned"], suite["counted"], suite["share"]) == (1, 0, None)


def test_attempts_are_kept_stage_by_stage_with_the_worker_they_ran_in(tmp_path: Path) -> None:
    with results.open(hurt.make_hurt_store(tmp_path)) as store:
        model = store.rows("v_attempt_stages", case_id=hurt.MODEL.id)
        lost = store.rows("v_attempt_stages", case_id=hurt.RETRIED.id)
        flakes = {row["case_id"]: row["disturbed_by"] for row in store.rows("v_flakes")}
    first = [(row["stage"], row["outcome"], row["worker"]) for row in model if row["attempt"] == 1]
    assert first == [
        ("fetch", "passed", "worker-1"),
        ("load", "passed", "worker-1"),
        ("forward", "crashed", "worker-1"),
    ]
    assert [row["outcome"] for row in model if row["attempt"] == 2] == ["passed"] * 5
    assert [(row["attempt"], row["outcome"], row["recorded"]) for row in lost] == [
        (1, "not_run", False),
        (2, "passed", True),
    ]
    assert lost[0]["message"] == "entered, and its end was never recorded"
    assert flakes == {hurt.FLAKY.id: [hurt.CULPRIT.id], hurt.MODEL.id: []}


def test_deaths_by_fate_name_a_worker_that_was_in_a_case(tmp_path: Path) -> None:
    with results.open(hurt.make_hurt_store(tmp_path)) as store:
        found = {row["fate"]: row for row in store.rows("v_deaths")}
    assert {fate: row["deaths"] for fate, row in found.items()} == {
        "signalled": 2,
        "died_at_start": 1,
        "interrupted": 1,
    }
    signalled = found["signalled"]
    assert (signalled["example_worker"], signalled["example_case"]) == ("worker-1", hurt.MODEL.id)
    assert found["died_at_start"]["example_case"] == ""


def test_the_checks_of_a_list_each_have_their_own_rate(tmp_path: Path) -> None:
    with results.open(make_checks(tmp_path)) as store:
        rows = store.rows("v_checks")
    names = ("list", "check_name", "planned", "counted", "passed", "failed", "unsupported", "skipped")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("foreach", "forward", 1, 1, 1, 0, 0, 0),
        ("op_db", "backward", 2, 1, 0, 1, 0, 1),
        ("op_db", "forward", 3, 3, 2, 0, 1, 0),
    ]
    assert rows[-1]["share"] == pytest.approx(2 / 3)
