"""A store with two nights between which a case of each class of change lies, and a third one elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from results.events import RunEnded
from results.ingest import ingest
from results.layout import run_path
from results.plan import Case, make_plan
from results.vocabulary import MODEL_STAGES, Outcome, RunState, Stage
from tests.results.factory import ended, model_case, opinfo_case, started, write_run

BEFORE = "2026-11-07-night"
AFTER = "2026-11-08-night"
ELSEWHERE = "2026-11-09-elsewhere"
_OUTCOMES = {
    "P": (Outcome.PASSED, "", ""),
    "F": (Outcome.FAILED_EXCEPTION, "RuntimeError", "shape is wrong"),
    "N": (Outcome.FAILED_NUMERIC, "", "max abs error 0.5 exceeds 1e-05"),
    "S": (Outcome.SKIPPED_BACKEND, "", "no native lowering"),
}
_TESTS = {
    "broke": "PF",
    "brake": "PF",
    "fixed": "FP",
    "other": "FN",
    "same": "PP",
    "bad": "FF",
    "hidden": "PS",
    "shown": "SF",
    "unrun": "P-",
    "gone": "F ",
    "fresh": " F",
}
"""By operator, how it came out before and after: as above, ``-`` without a result, a blank not planned."""
_MODELS = {
    "acme/broke": (900, "PPPPP", "PPPF"),
    "acme/back": (200, "PPPF", "PPF"),
    "acme/on": (100, "PF", "PPF"),
}


def make_changed_store(folder: Path) -> Path:
    """Plan, run and ingest the three nights."""
    _night(folder, BEFORE, 0, environment={"torch": "2.12.0"}, workers=2)
    _night(folder, AFTER, 1, environment={"torch": "2.13.0", "driver": "7"}, workers=4)
    _night(folder, ELSEWHERE, 0, environment={"torch": "2.12.0"}, workers=2, device="cpu")
    return folder


def _night(
    folder: Path, run: str, at: int, *, environment: dict[str, str], workers: int, device: str = "neuron"
) -> None:
    cases: list[Case] = []
    events: list[Any] = []
    for op, came in _TESTS.items():
        if came[at] == " ":
            continue
        cases.append(opinfo_case(op))
        if came[at] != "-":
            events.append(_ended(cases[-1], Stage.TEST, came[at]))
    for name, (downloads, *came) in _MODELS.items():
        case = model_case(name, downloads=downloads)
        if name == "acme/broke":  # its commit changed between the two nights
            case = Case(id=case.id.replace("@0", f"@{at}"), kind=case.kind, spec=case.spec)
        cases.append(case)
        events += [_ended(case, stage, letter) for stage, letter in zip(MODEL_STAGES, came[at], strict=False)]
    plan = make_plan(run=run, device=device, profile="default", cases=cases, settings={"workers": workers})
    cut_short = any(came[at] == "-" for came in _TESTS.values())
    end = RunEnded(run=run, state=RunState.INTERRUPTED, reason="Ctrl-C") if cut_short else None
    end = end or RunEnded(run=run, state=RunState.COMPLETE)
    begun = started(plan, environment=environment)
    ingest(folder, write_run(run_path(folder, run), plan, {"supervisor": [begun, end], "w0": events}))


def _ended(case: Case, stage: Stage, letter: str) -> Any:
    outcome, exception, message = _OUTCOMES[letter]
    return ended(case, stage, outcome, exception=exception, message=message)
