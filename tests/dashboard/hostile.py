"""A run whose names are HTML, Markdown, Streamlit directives, SQL, and 10 kB long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from results.events import Disturbed, OpCall, OpsRecorded, RunEnded, WorkerEnded
from results.ingest import ingest
from results.layout import run_path
from results.plan import Case, make_plan
from results.vocabulary import CaseKind, Fate, Outcome, RunState, Stage
from tests.results.factory import ended, model_case, started, write_run

RUN = "hostile-night"
EVIL = (
    "<img/src=x/onerror=alert(1)>**b**_i_`c`[l](javascript:alert(1)):red[r]:smile:$y$"
    "';DROP/**/TABLE/**/runs;--"
)
MODEL = f"evil/{EVIL}"
LONG = "long/" + "x" * 10_000
OP = f"aten::{EVIL}"
MESSAGE = f"<script>alert(1)</script>\n# heading\n{EVIL} " + "y" * 30_000
TEST = f"opinfo::<b>bold</b>::{EVIL}[float32]"
FLAKY = f"opinfo::flaky::{EVIL}"
"""Failed, then passed; ``TEST`` disturbs it."""


def make_hostile_store(folder: Path) -> Path:
    """Plan, run and ingest it."""
    models = [model_case(MODEL, task=EVIL, architecture=EVIL, library=EVIL), model_case(LONG)]
    test = Case(id=TEST, kind=CaseKind.OPINFO, spec={"op": EVIL, "dtype": "float32"})
    flaky = Case(id=FLAKY, kind=CaseKind.OPINFO, spec={"op": EVIL, "dtype": EVIL})
    plan = make_plan(run=RUN, device="neuron", profile="default", cases=[*models, test, flaky])
    events: list[Any] = [*_model_events(models[0]), *_model_events(models[1]), _ops(test, Stage.TEST)]
    events.append(ended(test, Stage.TEST, Outcome.FAILED_EXCEPTION, exception="Evil", message=MESSAGE))
    events.append(ended(flaky, Stage.TEST, Outcome.FAILED_EXCEPTION, exception="Evil", message=MESSAGE))
    events.append(ended(flaky, Stage.TEST, attempt=2))
    events.append(Disturbed(case=FLAKY, by=(TEST,), experiments=3))
    events.append(WorkerEnded(worker=EVIL, fate=Fate.SIGNALLED, signal=11, case=TEST, output_tail=MESSAGE))
    begun = started(plan, environment={EVIL: EVIL, "torch": "2.13.0"})
    end = RunEnded(run=RUN, state=RunState.INTERRUPTED, reason=EVIL)
    folder_of_run = write_run(run_path(folder, RUN), plan, {"supervisor": [begun, end], "w0": events})
    ingest(folder, folder_of_run)
    return folder


def _model_events(case: Case) -> list[Any]:
    return [
        ended(case, Stage.FETCH),
        ended(case, Stage.LOAD),
        _ops(case, Stage.FORWARD),
        ended(case, Stage.FORWARD, facts={EVIL: EVIL}),
        ended(
            case,
            Stage.BACKWARD,
            Outcome.FAILED_EXCEPTION,
            exception="Evil<b>",
            message=MESSAGE,
            traceback=MESSAGE,
        ),
    ]


def _ops(case: Case, stage: Stage) -> OpsRecorded:
    call = OpCall(called=OP, executed=OP, dtype="float32", fallback_calls=3, fallback_ns=10, bytes_moved=1)
    return OpsRecorded(case=case.id, attempt=1, stage=stage, calls=(call,))
