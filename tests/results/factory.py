"""Makes realistic runs and stores for tests, through plans, event logs and ingest as a night does.

``make_store(folder)`` is what most tests want. The numbers it must show are in ``Expected``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from results.events import (
    Ended,
    Entered,
    EventLog,
    OpCall,
    OpsRecorded,
    RunEnded,
    RunStarted,
    WorkerEnded,
    WorkerStarted,
)
from results.ingest import ingest
from results.layout import run_path
from results.plan import EVENTS_DIR, Case, Declared, Plan, make_plan
from results.vocabulary import MODEL_STAGES, CaseKind, Expectation, Fate, Outcome, RunState, Stage

COMPLETE_RUN = "2026-11-03-night"
INCOMPLETE_RUN = "2026-11-04-night"
HOSTILE = "[red]boom[/red] | a\x1b[31mb\x00c\n\r<script>alert(1)</script> " + "x" * 10_000
"""A message that must be shown as text, cut, and must not break a table."""

P, N = Outcome.PASSED, Outcome.NOT_RUN
_MODELS: Sequence[tuple[str, str, str, int, int, str]] = (
    ("acme/tiny-bert", "fill-mask", "BertForMaskedLM", 110_000, 900_000, "PPPPP"),
    ("acme/tiny-gpt2", "text-generation", "GPT2LMHeadModel", 124_000, 800_000, "PPPPU"),
    ("acme/tiny-llama", "text-generation", "LlamaForCausalLM", 260_000, 700_000, "PPPX-"),
    ("acme/tiny-t5", "translation", "T5ForConditionalGeneration", 77_000, 400_000, "PPE--"),
    ("acme/tiny-vit", "image-classification", "ViTForImageClassification", 86_000, 300_000, "PPPPP"),
    ("acme/tiny-whisper", "asr", "WhisperForConditionalGeneration", 39_000, 200_000, "PPC--"),
    ("acme/tiny-clip", "zero-shot", "CLIPModel", 151_000, 100_000, "PT---"),
    ("acme/gone", "fill-mask", "BertForMaskedLM", 110_000, 50_000, "I----"),
)
_LETTERS = {
    "P": Outcome.PASSED,
    "U": Outcome.UNSUPPORTED,
    "X": Outcome.FAILED_NUMERIC,
    "E": Outcome.FAILED_EXCEPTION,
    "C": Outcome.CRASHED,
    "T": Outcome.TIMED_OUT,
    "I": Outcome.INFRA_ERROR,
}
_DTYPES = ("float32", "bfloat16", "int64", "bool")


@dataclasses.dataclass(frozen=True)
class Expected:
    """What the views must say of the complete run of ``make_store``."""

    models: int = 8
    tests: int = 200
    counted_models: int = 7
    passed: tuple[int, ...] = (7, 6, 4, 3, 2)
    """Models passing fetch, load, forward, backward, compile."""
    first_gap: str = "aten::cumsum"
    first_gap_models: int = 3
    regressions: int = 10
    deaths: int = 2


def model_case(name: str = "acme/tiny-bert", **spec: Any) -> Case:
    """A model case with all the fields that views filter by."""
    fields = {
        "task": "fill-mask",
        "architecture": "BertForMaskedLM",
        "model_type": "bert",
        "library": "transformers",
        "parameters": 110_000,
        "downloads": 1000,
    }
    return Case(id=f"model::{name}@{'0' * 40}", kind=CaseKind.MODEL, spec=fields | spec)


def opinfo_case(op: str = "add", dtype: str = "float32", declared: Declared | None = None) -> Case:
    """One operator and dtype."""
    return Case(
        id=f"opinfo::{op}::forward[{dtype}]",
        kind=CaseKind.OPINFO,
        spec={"op": op, "dtype": dtype},
        declared=declared or Declared(),
    )


def ended(case: Case, stage: Stage, outcome: Outcome = P, attempt: int = 1, **fields: Any) -> Ended:
    """A result, of 0.25 seconds unless said otherwise."""
    return Ended(case=case.id, attempt=attempt, stage=stage, outcome=outcome, **({"seconds": 0.25} | fields))


def started(plan: Plan, **fields: Any) -> RunStarted:
    """The first record of a run's supervisor."""
    given = {
        "run": plan.run,
        "plan_hash": plan.hash,
        "planned": len(plan.cases),
        "device": plan.device,
        "profile": plan.profile,
        "harness_version": "0.1.0",
        "environment": {"torch": "2.13.0", "python": "3.11.9"},
    }
    return RunStarted(**(given | fields))  # type: ignore[arg-type]


def write_run(folder: Path, plan: Plan, logs: dict[str, Iterable[Any]]) -> Path:
    """Save a plan and write event logs (name without suffix → events); returns the run's folder."""
    plan.save(folder)
    for name, events in logs.items():
        append(folder, name, events)
    return folder


def append(folder: Path, name: str, events: Iterable[Any]) -> Path:
    """Append events to a log of a run and return its path."""
    with EventLog(folder / EVENTS_DIR / f"{name}.jsonl") as log:
        for event in events:
            log.write(event)
    return log.path


def make_run(folder: Path, run: str = COMPLETE_RUN, *, device: str = "neuron", missing: int = 0) -> Path:
    """Write a run of 8 models and 200 operator tests; ``missing`` tests never get a result."""
    tests = _tests()
    cases = [_zoo_case(row) for row in _MODELS] + tests
    plan = make_plan(run=run, device=device, profile="default", cases=cases, settings={"workers": 2})
    if missing:
        end = RunEnded(run=run, state=RunState.INTERRUPTED, reason="Ctrl-C")
    else:
        end = RunEnded(run=run, state=RunState.COMPLETE)
    workers = [
        WorkerEnded(
            worker="w1",
            fate=Fate.SIGNALLED,
            signal=11,
            case=_zoo_case(_MODELS[5]).id,
            stage="forward",
            output_tail="Fatal Python error: Segmentation fault",
        ),
        WorkerEnded(
            worker="w2", fate=Fate.KILLED_AT_DEADLINE, signal=9, case=_zoo_case(_MODELS[6]).id, stage="load"
        ),
        WorkerEnded(worker="w0", fate=Fate.FINISHED),
    ]
    folder = write_run(folder, plan, {"supervisor": [started(plan)]})
    append(folder, "w0", _test_events(tests[: len(tests) - missing]))
    append(folder, "w1", [WorkerStarted(worker="w1", pid=101, cases=6), *_model_events(_MODELS[:6])])
    append(folder, "w2", [WorkerStarted(worker="w2", pid=102, cases=2), *_model_events(_MODELS[6:])])
    append(folder, "supervisor", [*workers, end])
    return folder


def make_store(folder: Path, *, incomplete: bool = True) -> Path:
    """A store with a complete run and, unless told otherwise, a later one that misses three results."""
    ingest(folder, make_run(run_path(folder, COMPLETE_RUN)))
    if incomplete:
        ingest(folder, make_run(run_path(folder, INCOMPLETE_RUN), INCOMPLETE_RUN, missing=3))
    return folder


def _zoo_case(row: tuple[str, str, str, int, int, str]) -> Case:
    name, task, architecture, parameters, downloads, _ = row
    kind = name.removeprefix("acme/tiny-")
    return model_case(
        name,
        task=task,
        architecture=architecture,
        model_type=kind,
        parameters=parameters,
        downloads=downloads,
    )


def _tests() -> list[Case]:
    """50 operators by 4 dtypes; some are declared to fail, to be skipped or to be flaky."""
    cases = []
    for number in range(50):
        for dtype in _DTYPES:
            expectation = Expectation.PASS
            if number == 41 and dtype == "int64":
                expectation = Expectation.FAIL
            if number == 43 and dtype in ("int64", "bool"):
                expectation = Expectation.SKIP
            why = {"category": "no_native_lowering", "reason": "no integer kernel", "owner": "kernels"}
            declared = Declared(expectation=expectation, **(why if expectation != "pass" else {}))
            cases.append(opinfo_case(f"op{number:02}", dtype, declared))
    return cases


def _test_outcome(number: int, dtype: str) -> tuple[Outcome, str, str]:
    if number == 40:
        return Outcome.FAILED_NUMERIC, "", f"max abs error 0.{number}{len(dtype)} exceeds 1e-05"
    if number == 41 and dtype == "int64":
        return Outcome.FAILED_EXCEPTION, "RuntimeError", "not implemented for 'Long' at 0x7f00deadbeef"
    if number == 42 and dtype == "float32":
        return Outcome.FAILED_EXCEPTION, "ValueError", HOSTILE
    if number == 44:
        return Outcome.SKIPPED_UPSTREAM, "", f"op44 does not support {dtype}"
    if number == 45 and dtype == "bool":
        return Outcome.VACUOUS, "", "no op reached the device"
    if number == 46:
        return Outcome.UNSUPPORTED, "NotImplementedError", "op46 has no kernel on neuron:0"
    return Outcome.PASSED, "", ""


def _test_events(cases: Sequence[Case]) -> Iterable[Any]:
    yield WorkerStarted(worker="w0", pid=100, cases=len(cases))
    for case in cases:
        number, dtype = int(case.spec["op"][2:]), case.spec["dtype"]
        outcome, exception, message = _test_outcome(number, dtype)
        on_device = number % 5 != 0
        op = f"aten::op{number:02}"
        call = OpCall(
            called=op,
            executed=f"{op}.out",
            dtype=dtype,
            device_calls=4 if on_device else 0,
            fallback_calls=0 if on_device else 4,
            device_ns=4_000 if on_device else 0,
            fallback_ns=0 if on_device else 9_000,
            bytes_moved=0 if on_device else 512,
        )
        yield Entered(case=case.id, attempt=1, stage=Stage.TEST)
        if outcome is not Outcome.SKIPPED_UPSTREAM:
            yield OpsRecorded(case=case.id, attempt=1, stage=Stage.TEST, calls=(call,))
        metrics = {"max_abs_error": float("nan") if outcome is Outcome.VACUOUS else 0.0}
        facts = {"category": "dtype"} if outcome is Outcome.SKIPPED_UPSTREAM else {}
        said = {"exception": exception, "message": message, "metrics": metrics, "facts": facts}
        yield ended(case, Stage.TEST, outcome, seconds=0.01, **said)


def _model_events(rows: Sequence[tuple[str, str, str, int, int, str]]) -> Iterable[Any]:
    for number, row in enumerate(rows):
        case = _zoo_case(row)
        for stage, letter in zip(MODEL_STAGES, row[5], strict=True):
            if letter == "-":
                break
            yield Entered(case=case.id, attempt=1, stage=stage)
            if letter == "P" and stage is not Stage.FETCH:
                calls = _calls(row[0], stage, number)
                yield OpsRecorded(case=case.id, attempt=1, stage=stage, calls=calls)
            yield _stage_ended(case, stage, _LETTERS[letter])


def _stage_ended(case: Case, stage: Stage, outcome: Outcome) -> Ended:
    messages = {
        Outcome.UNSUPPORTED: ("NotImplementedError", "cannot lower aten::tril on neuron"),
        Outcome.FAILED_NUMERIC: ("", "gradient of layers.0.weight: max abs error 0.5 exceeds 1e-05"),
        Outcome.FAILED_EXCEPTION: ("RuntimeError", "shape '[2, 3]' is invalid for input of size 7"),
        Outcome.CRASHED: ("", "SIGSEGV"),
        Outcome.TIMED_OUT: ("", "no end after 120 s"),
        Outcome.INFRA_ERROR: ("HfHubHTTPError", "404 Client Error for https://hub/acme/gone"),
    }
    exception, message = messages.get(outcome, ("", ""))
    traceback = f"Traceback (most recent call last):\n{exception}: {message}" if exception else ""
    return ended(case, stage, outcome, exception=exception, message=message, traceback=traceback)


def _calls(name: str, stage: Stage, number: int) -> tuple[OpCall, ...]:
    """Matrix products on the device, and fallbacks that differ from model to model."""
    mm = OpCall(
        called="aten::mm", executed="aten::mm.out", dtype="float32", device_calls=20, device_ns=200_000
    )
    copy = OpCall(
        called="aten::_copy_from",
        executed="aten::_copy_from",
        dtype="float32",
        device_calls=50,
        bytes_moved=4096,
    )
    view = OpCall(called="aten::view", executed="aten::view", dtype="float32", device_calls=30)
    if stage is Stage.LOAD:
        return (copy, view)
    fallen = ["aten::cumsum"] if number < 3 else []
    fallen += ["aten::topk"] if name == "acme/tiny-gpt2" else []
    calls = [
        OpCall(
            called=op,
            executed=f"{op}.out",
            dtype="int64",
            fallback_calls=2,
            fallback_ns=30_000,
            bytes_moved=256,
        )
        for op in fallen
    ]
    return (mm, copy, *calls)
