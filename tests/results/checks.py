"""A run of suite ``opinfo`` with two lists, two checks and every kind of answer, as a night writes it."""

from __future__ import annotations

from pathlib import Path

from results.events import RunEnded
from results.ingest import ingest
from results.plan import Case, make_plan
from results.vocabulary import CaseKind, Outcome, RunState, Stage
from tests.results.factory import ended, started, write_run

RUN = "2026-11-06-checks"


def check_case(database: str, name: str, check: str, dtype: str = "float32") -> Case:
    """One check of one entry."""
    spec = {"database": database, "op": name, "dtype": dtype, "check": check}
    identity = f"opinfo::{database}::{name}::{check}[{dtype}]"
    return Case(id=identity, kind=CaseKind.OPINFO, spec=spec)


def make_checks(folder: Path) -> Path:
    """A store with that run: of op_db 2 of 3 forward and 0 of 1 backward pass, of foreach 1 of 1 forward."""
    answers = [
        (check_case("op_db", "add", "forward"), Outcome.PASSED),
        (check_case("op_db", "mul", "forward"), Outcome.PASSED),
        (check_case("op_db", "gelu", "forward", "int64"), Outcome.UNSUPPORTED),
        (check_case("op_db", "add", "backward"), Outcome.FAILED_NUMERIC),
        (check_case("op_db", "eq", "backward"), Outcome.SKIPPED_UPSTREAM),
        (check_case("foreach", "_foreach_add", "forward"), Outcome.PASSED),
    ]
    plan = make_plan(run=RUN, device="neuron", profile="opinfo", cases=[case for case, _ in answers])
    events = [
        ended(case, Stage.TEST, outcome, facts={"category": "opinfo_entry"} if "eq" in case.id else {})
        for case, outcome in answers
    ]
    end = RunEnded(run=RUN, state=RunState.COMPLETE)
    ingest(folder, write_run(folder / "runs" / RUN, plan, {"w": [started(plan), *events, end]}))
    return folder
