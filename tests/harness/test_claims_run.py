"""Suite ``claims`` in a run: planned, run by workers, stored, and judged by expectations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import harness
import results
from harness import devices
from harness.errors import ExitCode
from harness.job import Job
from harness.planning import collect_cases
from harness.profiles import load_profile
from harness.worker import _runner
from results.plan import Case, load_plan
from results.vocabulary import CaseKind, Outcome, RunState


def test_a_worker_checks_a_claim_and_gives_one_result(tmp_path: Path) -> None:
    case = Case(
        id="claims::random::own_generator", kind=CaseKind.CLAIM, spec={"claim": "random::own_generator"}
    )
    found = list(_runner(case, Job.__new__(Job), devices.get("cpu")))
    assert [result.outcome for result in found] == [Outcome.PASSED]
    assert found[0].calls


def test_the_default_profile_plans_every_claim_and_a_filter_narrows(tmp_path: Path) -> None:
    every = load_profile("default", {"suites": "claims"}, tmp_path)
    cases = collect_cases(every, "", print)
    assert {case.kind for case in cases} == {CaseKind.CLAIM}
    assert "claims" in load_profile("default", {}, tmp_path).suites
    few = load_profile("default", {"suites": "claims", "test_filter": "claims::random::*"}, tmp_path)
    chosen = [case.id for case in collect_cases(few, "", print)]
    assert chosen == [case.id for case in cases if case.id.startswith("claims::random::")] != []


@pytest.mark.nightly
def test_claims_are_run_and_stored_like_any_case(tmp_path: Path) -> None:
    run = harness.run(
        store=tmp_path / "store", device="cpu", suites=["claims"], test_filter="claims::[rs][ate][nrf]*"
    )
    assert (run.state, run.exit_code) == (RunState.COMPLETE, ExitCode.OK)
    planned = load_plan(tmp_path / "store" / "runs" / run.id).cases
    with results.open(run.store) as store:
        rows = store.rows("v_cases", run=run.id)
        (balance,) = store.rows("v_skip_balance", run=run.id)
        tests = store.rows("v_device_share", run=run.id)
    assert {row["case_id"] for row in rows} == {case.id for case in planned}
    outcomes = Counter((row["file"], row["outcome"]) for row in rows)
    assert set(outcomes) == {("random", "passed"), ("refusals", "unsupported"), ("streams", "unsupported")}
    assert outcomes["random", "passed"] == 3
    assert balance["balanced"]
    assert sum(row["device_calls"] for row in tests) > 0


@pytest.mark.nightly
def test_what_does_not_hold_is_a_known_failure(tmp_path: Path) -> None:
    run = harness.run(
        store=tmp_path / "store",
        device="neuron",
        suites=["claims"],
        test_filter="claims::d[it]*::*[es]*",
        attempts=1,
    )
    assert run.exit_code is ExitCode.OK
    with results.open(run.store) as store:
        verdicts = Counter(row["verdict"] for row in store.rows("v_cases", run=run.id))
    assert set(verdicts) == {"ok", "known_failure"}
