"""A night that was hurt in every way a report tells of: flakes, a disturbance, deaths, resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from results.events import Disturbed, Entered, RunEnded, WorkerEnded, WorkerStarted
from results.ingest import ingest
from results.layout import run_path
from results.plan import Case, Declared, make_plan
from results.vocabulary import MODEL_STAGES, CaseKind, Expectation, Fate, Outcome, RunState, Stage
from tests.results.factory import ended, model_case, opinfo_case, started, write_run

RUN = "2026-11-05-hurt"
FLAKY = opinfo_case("flaky")
"""Failed, then passed; it fails after ``CULPRIT``."""

CULPRIT = opinfo_case("culprit")
RETRIED = opinfo_case("retried")
"""Was lost with its process in the first attempt and passed in the second."""

MODEL = model_case("acme/wobbly")
"""Crashed in forward, then passed."""

KNOWN = opinfo_case("known", declared=Declared(
    expectation=Expectation.FAIL, category="sparse", reason="no sparse kernels", link="https://acme/1",
))  # fmt: skip
FLAKES, DEATHS, RESUMES = 2, 4, 2


def make_hurt_store(folder: Path, *, flaky: Case = FLAKY, culprit: Case = CULPRIT, tail: str = "") -> Path:
    """Plan, run and ingest it; names and the output of the first death may be given."""
    rest = [opinfo_case(f"op{number}") for number in range(4)]
    cases = [MODEL, flaky, culprit, RETRIED, KNOWN, *rest]
    plan = make_plan(run=RUN, device="neuron", profile="default", cases=cases)
    supervisor = [
        started(plan),
        *_life("worker-0", Fate.FINISHED, peak_bytes=300 << 20),
        *_life("worker-1", Fate.SIGNALLED, MODEL.id, Stage.FORWARD, signal=11, output_tail=tail),
        *_life("worker-2", Fate.INTERRUPTED, RETRIED.id, Stage.TEST),
        started(plan, resumed=True),
        *_life("worker-3", Fate.SIGNALLED, signal=9),
        *_life("worker-4", Fate.DIED_AT_START, exit_code=1),
        started(plan, resumed=True),
        *_life("worker-5", Fate.FINISHED, peak_bytes=100 << 20),
        Disturbed(case=flaky.id, by=(culprit.id,), experiments=4),
        RunEnded(run=RUN, state=RunState.COMPLETE),
    ]
    message = "max abs error 0.5 exceeds 1e-05"
    first = [ended(case, Stage.TEST) for case in (culprit, *rest)]
    first.append(ended(flaky, Stage.TEST, Outcome.FAILED_NUMERIC, message=message))
    first.append(ended(KNOWN, Stage.TEST, Outcome.FAILED_EXCEPTION, exception="RuntimeError", message="no"))
    crash = ended(MODEL, Stage.FORWARD, Outcome.CRASHED, message="SIGSEGV", facts={"worker": "worker-1"})
    logs: dict[str, list[Any]] = {
        "supervisor": supervisor,
        "worker-0": first,
        "worker-1": [*(ended(MODEL, stage) for stage in MODEL_STAGES[:2])],
        "charged": [crash],
        "worker-2": [Entered(case=RETRIED.id, attempt=1, stage=Stage.TEST)],
        "worker-5": [
            ended(flaky, Stage.TEST, attempt=2),
            ended(RETRIED, Stage.TEST, attempt=2),
            *(ended(MODEL, stage, attempt=2) for stage in MODEL_STAGES),
        ],
    }
    ingest(folder, write_run(run_path(folder, RUN), plan, logs))
    return folder


def _life(worker: str, fate: Fate, case: str = "", stage: str = "", **fields: Any) -> list[Any]:
    end = WorkerEnded(worker=worker, fate=fate, case=case, stage=stage, **fields)
    return [WorkerStarted(worker=worker, pid=100, cases=1), end]


def one_case_store(folder: Path, outcome: Outcome | None, expectation: Expectation, **end: Any) -> Path:
    """A store with a run of one test; ``None`` is a case that was never begun."""
    case = Case(id="opinfo::f::c::t", kind=CaseKind.OPINFO, declared=Declared(expectation=expectation))
    plan = make_plan(run=RUN, device="neuron", profile="default", cases=[case])
    said = [] if outcome is None else [ended(case, Stage.TEST, outcome)]
    finish = RunEnded(**({"run": RUN, "state": RunState.COMPLETE} | end))
    ingest(folder, write_run(run_path(folder, RUN), plan, {"s": [started(plan), *said, finish]}))
    return folder


def uniform_store(
    folder: Path,
    *,
    failing: int,
    passing: int = 0,
    known: int = 0,
    ops: int = 1000,
    alike: bool = True,
    state: RunState = RunState.COMPLETE,
) -> Path:
    """A store with a run in which so many cases fail, of so many operators, alike or each in its own way."""
    declared = Declared(
        expectation=Expectation.FAIL, category="sparse", reason="no sparse kernels", link="https://acme/1"
    )
    bad = [opinfo_case(f"op{number % ops}", f"dtype{number}") for number in range(failing)]
    good = [opinfo_case(f"fine{number}") for number in range(passing)]
    expected = [opinfo_case(f"known{number}", declared=declared) for number in range(known)]
    plan = make_plan(run=RUN, device="neuron", profile="default", cases=[*bad, *good, *expected])
    said = [f"no device at 0x7f{number:02x}" if alike else "no " + "x" * number for number in range(failing)]
    fields = {"exception": "RuntimeError"}
    worker = [ended(case, Stage.TEST) for case in good]
    for case, message in zip([*bad, *expected], [*said, *["no"] * known], strict=True):
        worker.append(ended(case, Stage.TEST, Outcome.FAILED_EXCEPTION, message=message, **fields))
    logs = {"supervisor": [started(plan), RunEnded(run=RUN, state=state)], "worker": worker}
    ingest(folder, write_run(run_path(folder, RUN), plan, logs))
    return folder
