"""Ingest: idempotent, incremental, honest about what is missing."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import results
from results.events import EventLog, OpCall, OpsRecorded, RunEnded
from results.ingest import IngestError, ingest, rebuild
from results.layout import database_path, run_path
from results.plan import EVENTS_DIR, Case, Declared, make_plan
from results.store import Store
from results.vocabulary import MODEL_STAGES, Expectation, Outcome, RunState, Stage, case_outcome
from results.writer import writing
from tests.results.factory import (
    COMPLETE_RUN,
    HOSTILE,
    append,
    ended,
    make_run,
    make_store,
    model_case,
    opinfo_case,
    started,
    write_run,
)

TABLES = ("runs", "planned", "models", "stage_results", "op_calls", "signatures", "entered", "worker_ends")


def _plan(*cases: Case, run: str = "r1"):
    return make_plan(run=run, device="neuron", profile="smoke", cases=cases or (opinfo_case(),))


def _contents(path: Path) -> dict[str, list]:
    with results.open(path) as store:
        return {name: store.query_rows(f"SELECT * FROM {name} ORDER BY ALL") for name in TABLES}


def test_a_complete_run_is_reported_so(tmp_path: Path) -> None:
    report = ingest(tmp_path, make_run(run_path(tmp_path, COMPLETE_RUN)))
    assert report.complete
    assert (report.state, report.planned, report.with_result, report.missing) == ("complete", 208, 208, 0)
    assert (report.logs, report.refused) == (4, ())
    assert report.database == database_path(tmp_path)


def test_ingesting_twice_changes_nothing(tmp_path: Path) -> None:
    folder = make_run(run_path(tmp_path, COMPLETE_RUN))
    first = ingest(tmp_path, folder)
    before = _contents(tmp_path)
    second = ingest(tmp_path, folder)
    assert first.records > 400
    assert second.records == 0
    assert str(_contents(tmp_path)) == str(before)


def test_a_rebuilt_store_says_the_same(tmp_path: Path) -> None:
    make_store(tmp_path)
    before = _contents(tmp_path)
    database_path(tmp_path).write_bytes(b"this is no database")
    with pytest.raises(results.StoreError, match="cannot be read"):
        results.open(tmp_path)
    with pytest.raises(results.StoreError, match=r"damaged.*--rebuild"):
        ingest(tmp_path, run_path(tmp_path, COMPLETE_RUN))
    assert [report.complete for report in rebuild(tmp_path)] == [True, False]
    assert str(_contents(tmp_path)) == str(before)


def test_a_run_that_goes_on_is_completed(tmp_path: Path) -> None:
    one, two = opinfo_case("a"), opinfo_case("b")
    plan = _plan(one, two)
    folder = write_run(tmp_path / "run", plan, {"s": [started(plan)], "w": [ended(one, Stage.TEST)]})
    first = ingest(tmp_path / "store", folder)
    assert (first.state, first.missing, first.complete) == ("running", 1, False)
    append(folder, "w", [ended(two, Stage.TEST)])
    append(folder, "s", [RunEnded(run="r1", state=RunState.COMPLETE)])
    second = ingest(tmp_path / "store", folder)
    assert (second.records, second.state, second.complete) == (2, "complete", True)


def test_a_run_said_to_be_complete_is_not_if_a_case_has_no_result(tmp_path: Path) -> None:
    one, two = opinfo_case("a"), opinfo_case("b")
    plan = _plan(one, two)
    events = [started(plan), ended(one, Stage.TEST), RunEnded(run="r1", state=RunState.COMPLETE)]
    report = ingest(tmp_path / "store", write_run(tmp_path / "run", plan, {"s": events}))
    assert (report.state, report.missing, report.complete) == ("complete", 1, False)


def test_a_resumed_run_stands_by_its_last_attempt_and_keeps_the_first(tmp_path: Path) -> None:
    case = model_case()
    plan = _plan(case)
    passed = [ended(case, stage, attempt=2) for stage in MODEL_STAGES]
    events = [
        started(plan),
        ended(case, Stage.FETCH),
        ended(case, Stage.LOAD, Outcome.CRASHED, message="SIGSEGV"),
        RunEnded(run="r1", state=RunState.INTERRUPTED),
        started(plan, resumed=True),
        *passed,
        RunEnded(run="r1", state=RunState.COMPLETE),
    ]
    ingest(tmp_path / "store", write_run(tmp_path / "run", plan, {"s": events}))
    with results.open(tmp_path / "store") as store:
        assert store.rows("v_cases")[0]["outcome"] == "passed"
        assert store.rows("v_cases")[0]["attempts"] == 2
        assert {row["attempt"] for row in store.rows("v_stages")} == {2}
        assert store.rows("v_failures") == []
        assert store.query_rows("SELECT count(*) AS n FROM stage_results")[0]["n"] == 7
        run = store.rows("v_runs")[0]
        assert (run["state"], run["resumes"], run["complete"]) == ("complete", 1, True)


def test_a_torn_log_is_ingested_up_to_its_last_whole_line_and_again_when_it_went_on(tmp_path: Path) -> None:
    one, two = opinfo_case("a"), opinfo_case("b")
    plan = _plan(one, two)
    folder = write_run(tmp_path / "run", plan, {"w": [ended(one, Stage.TEST), ended(two, Stage.TEST)]})
    path = folder / EVENTS_DIR / "w.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    assert ingest(tmp_path / "store", folder).with_result == 1
    append(folder, "w", [ended(two, Stage.TEST, Outcome.CRASHED)])
    assert ingest(tmp_path / "store", folder).with_result == 2


def test_a_run_from_elsewhere_lies_in_the_store_afterwards(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "elsewhere")
    ingest(tmp_path / "store", folder)
    before = _contents(tmp_path / "store")
    shutil.rmtree(folder)
    assert rebuild(tmp_path / "store")[0].complete
    assert str(_contents(tmp_path / "store")) == str(before)


def test_numbers_that_json_cannot_say_arrive_as_numbers(tmp_path: Path) -> None:
    case = opinfo_case()
    metrics = {"nan": math.nan, "up": math.inf, "down": -math.inf, "one": 1.0}
    plan = _plan(case)
    events = [ended(case, Stage.TEST, seconds=math.inf, metrics=metrics)]
    ingest(tmp_path / "store", write_run(tmp_path / "run", plan, {"w": events}))
    with results.open(tmp_path / "store") as store:
        row = store.query_rows(
            "SELECT isnan(metrics['nan']) AS a, isinf(metrics['up']) AND metrics['up'] > 0 AS b, "
            "isinf(metrics['down']) AND metrics['down'] < 0 AS c, metrics['one'] = 1 AS d, "
            "isinf(seconds) AS e FROM stage_results"
        )[0]
    assert all(row.values())


@pytest.mark.parametrize("message", [HOSTILE, "\ud800 lone", "\x00", "'; DROP TABLE runs; --", "🎉" * 10])
def test_any_message_can_be_stored(tmp_path: Path, message: str) -> None:
    case = opinfo_case()
    plan = _plan(case)
    events = [
        ended(
            case,
            Stage.TEST,
            Outcome.FAILED_EXCEPTION,
            message=message,
            exception=message,
            facts={"k": message},
        )
    ]
    ingest(tmp_path / "store", write_run(tmp_path / "run", plan, {"w": events}))
    with results.open(tmp_path / "store") as store:
        stored = store.rows("v_cases")[0]["message"]
    assert stored == message.replace("\ud800", "\\ud800")


def test_a_plan_without_any_log_is_a_run_without_results(tmp_path: Path) -> None:
    report = ingest(tmp_path / "store", write_run(tmp_path / "run", _plan(), {}))
    assert (report.state, report.missing, report.logs) == ("running", 1, 0)
    with results.open(tmp_path / "store") as store:
        assert store.rows("v_missing")[0]["reason"] == "never began; the run has not ended"


def test_a_run_whose_outcomes_do_not_add_up_is_not_stored(tmp_path: Path) -> None:
    store = make_store(tmp_path, incomplete=False)
    with writing(store) as connection:
        connection.execute("INSERT INTO planned SELECT * FROM planned LIMIT 1")
    before = database_path(store).read_bytes()
    with pytest.raises(IngestError, match="outcomes for 208 planned cases"):
        ingest(store, run_path(store, COMPLETE_RUN))
    assert database_path(store).read_bytes() == before


stage_maps = st.dictionaries(st.sampled_from(MODEL_STAGES), st.sampled_from(Outcome))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(stage_maps, st.sampled_from(Expectation)), min_size=1, max_size=30), st.data())
def test_sql_folds_and_judges_as_the_vocabulary_does(
    tmp_path_factory: pytest.TempPathFactory, models: list, data: st.DataObject
) -> None:
    """Whatever the stages gave, and however the events are spread over logs."""
    folder = tmp_path_factory.mktemp("fold")
    found: dict[str, tuple] = {}
    logs: dict[str, list] = {"a": [], "b": [], "c": []}
    cases = []
    for number, (stages, expectation) in enumerate(models):
        case = model_case(f"o/m{number}")
        case = Case(
            id=case.id,
            kind=case.kind,
            spec=case.spec,
            declared=Declared(
                expectation=expectation,
                outcome=data.draw(st.sampled_from(["", "failed_numeric", "crashed"])),
                stage=data.draw(st.sampled_from(["", "load", "compile"])),
            ),
        )
        cases.append(case)
        found[case.id] = (*case_outcome(stages, MODEL_STAGES), case.declared)
        for stage, outcome in stages.items():
            log = logs[data.draw(st.sampled_from("abc"))]
            call = OpCall(called="aten::x", executed="aten::x.out", dtype="f", fallback_calls=1)
            log.append(OpsRecorded(case=case.id, attempt=1, stage=stage, calls=(call,)))
            log.append(ended(case, stage, outcome))
    report = ingest(folder / "store", write_run(folder / "run", _plan(*cases), logs))
    with Store(folder / "store") as store:
        rows = store.rows("v_cases")
        told = {row["case_id"]: (row["outcome"], row["stage"], row["verdict"]) for row in rows}
        assert sum(row["cases"] for row in store.rows("v_outcomes")) == len(cases)
        share = store.rows("v_device_share")
        assert sum(row["fallback_calls"] for row in share) == sum(len(stages) for stages, _ in models)
    assert told == {
        case: (outcome, stage, declared.verdict(outcome, stage))
        for case, (outcome, stage, declared) in found.items()
    }
    assert report.missing == sum(outcome is Outcome.NOT_RUN for outcome, _, _ in found.values())


@settings(max_examples=10, deadline=None)
@given(st.floats(0, 1))
def test_any_way_of_cutting_a_log_in_two_ingests_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, cut: float
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    cases = [opinfo_case(f"o{number}") for number in range(4)]
    plan = _plan(*cases)
    events = [started(plan), *(ended(case, Stage.TEST, Outcome.CRASHED) for case in cases)]
    run = write_run(folder / "run", plan, {"w": events})
    path = run / EVENTS_DIR / "w.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * cut)])
    first = ingest(folder / "store", run)
    path.write_bytes(whole)
    second = ingest(folder / "store", run)
    assert first.records + second.records == len(events)
    assert second.with_result == 4


def test_opening_a_log_while_it_is_ingested_is_no_contradiction(tmp_path: Path) -> None:
    case = opinfo_case()
    plan = _plan(case)
    folder = write_run(tmp_path / "run", plan, {})
    with EventLog(folder / EVENTS_DIR / "w.jsonl") as log:
        log.write(started(plan))
        assert ingest(tmp_path / "store", folder).records == 1
        log.write(ended(case, Stage.TEST))
        assert ingest(tmp_path / "store", folder).records == 1
