"""A run with a skip of every source, written as a night writes it."""

from __future__ import annotations

from pathlib import Path

from results.events import RunEnded
from results.ingest import ingest
from results.plan import Case, Declared, make_plan
from results.vocabulary import CaseKind, Expectation, Outcome, RunState, Stage
from tests.results.factory import ended, opinfo_case, started, write_run

RUN = "2026-11-05-skips"
REASON = "Only runs on ['cuda', 'xpu'] <b>& `mps`</b>"
ONLY_ON = "torch.testing._internal.common_device_type:onlyOn.__call__.<locals>.only_fn"
MYSTERY = "pytest::test_b.py::-::test_mystery"
NEWER = "pytest::test_b.py::-::test_newer"


def pytest_case(name: str, declared: Declared | None = None) -> Case:
    """One test of a suite that pytest runs."""
    return Case(id=f"pytest::{name}", kind=CaseKind.PYTEST, declared=declared or Declared())


def make_ledger(folder: Path, *, older: bool = False) -> Path:
    """A store with one run: 2 passes, 3 device gates, 1 body, 1 dtype, 1 deliberate, 2 uncategorised.

    With ``older`` a third one, of which the evidence says what today's rules know.
    """
    upstream, backend = Outcome.SKIPPED_UPSTREAM, Outcome.SKIPPED_BACKEND
    declared = Declared(expectation=Expectation.SKIP, category="sparse", reason="no sparse kernels")
    lacking = opinfo_case("add", "float8_e4m3fn")
    lacking = Case(id=lacking.id, kind=lacking.kind, spec={**lacking.spec, "unsupported": "op_db lists none"})
    results = [
        (pytest_case("test_a.py::TestA::test_passes"), Outcome.PASSED, {}),
        (opinfo_case("add"), Outcome.PASSED, {}),
        *(
            (
                pytest_case(f"test_a.py::TestA::test_gate_{number}"),
                upstream,
                {"category": "device_gate", "reason": REASON, "frames": "m:onlyOn", "rule": "onlyOn"},
            )
            for number in range(3)
        ),
        (pytest_case("test_a.py::TestA::test_body"), upstream, {"category": "body", "reason": "no"}),
        (lacking, Outcome.UNSUPPORTED, {}),
        (pytest_case("test_b.py::-::test_declared", declared), backend, {}),
        (pytest_case(MYSTERY.removeprefix("pytest::")), upstream, {"reason": "who knows"}),
        (pytest_case(NEWER.removeprefix("pytest::")), upstream, {"category": "from_a_newer_harness"}),
    ]
    if older:
        facts = {"category": "uncategorised", "origin": "raised", "reason": "no", "frames": ONLY_ON}
        results.append((pytest_case("test_b.py::-::test_older"), upstream, facts))
    plan = make_plan(run=RUN, device="neuron", profile="pytest", cases=[case for case, _, _ in results])
    events = [ended(case, Stage.TEST, outcome, facts=facts) for case, outcome, facts in results]
    end = RunEnded(run=RUN, state=RunState.COMPLETE)
    ingest(folder, write_run(folder / "runs" / RUN, plan, {"w": [started(plan), *events, end]}))
    return folder
