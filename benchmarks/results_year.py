"""A year of nights to measure the store with: one as a night leaves it, the others copied from it in SQL.

The first night has a plan and event logs that the real ingest reads. The others are its rows under another
run, each a day later, in which one case in two hundred comes out otherwise: a year of logs fills a disk.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import duckdb

from results.events import (
    Ended,
    Entered,
    Event,
    OpCall,
    OpsRecorded,
    Record,
    RunEnded,
    RunStarted,
    WorkerEnded,
    WorkerStarted,
    encode,
)
from results.layout import run_path
from results.plan import EVENTS_DIR, Case, make_plan
from results.vocabulary import MODEL_STAGES, CaseKind, Fate, Outcome, RunState, Stage
from results.writer import writing

FIRST = "20260101-000000-neuron"
_BEGAN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_DTYPES = ("float32", "bfloat16", "float16", "int64", "bool")
_CHECKS = ("forward", "backward", "gradgrad", "compile", "out", "noncontiguous", "zero_size")
_TASKS = (
    "text-generation",
    "fill-mask",
    "image-classification",
    "automatic-speech-recognition",
    "translation",
)
_WORKERS = 200
_OPS = 600
_CLASS_MEMBERS = 50
"""Models that one representative stands for; it alone has op calls."""


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """How large a year is.

    Attributes:
        nights, tests, models: of the year, and of each night.
        megabytes: the database is made no larger than this; nights that do not fit are left out.
        seconds: nor are nights copied for longer than this.
    """

    nights: int
    tests: int
    models: int
    megabytes: int
    seconds: float


def write_night(store: Path, size: Size) -> Path:
    """Plan and event logs of the first night; give its folder."""
    cases = [*_tests(size.tests), *_models(size.models)]
    plan = make_plan(run=FIRST, device="neuron", profile="full", cases=cases)
    folder = run_path(store, FIRST)
    plan.save(folder)
    started = RunStarted(
        run=FIRST,
        plan_hash=plan.hash,
        planned=len(plan.cases),
        device="neuron",
        profile="full",
        harness_version="0.1.0",
        environment={"torch": "2.13.0", "python": "3.11.7", "neuron": "simulated"},
    )
    names = [f"worker-{number:05}" for number in range(_WORKERS)]
    fates = [WorkerEnded(worker=name, fate=Fate.FINISHED, peak_bytes=1 << 30) for name in names]
    _write(folder, "supervisor", [started, *fates, RunEnded(run=FIRST, state=RunState.COMPLETE)])
    for number, name in enumerate(names):
        own = plan.cases[number::_WORKERS]
        begun = WorkerStarted(worker=name, pid=number, cases=len(own))
        _write(folder, name, [begun, *(event for case in own for event in _events(case))])
    return folder


def _write(folder: Path, name: str, events: Iterable[Event]) -> None:
    """As ``EventLog`` would, without a flush for each record."""
    path = folder / EVENTS_DIR / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for seq, event in enumerate(events):
            file.write(encode(Record(seq, _BEGAN.timestamp() + seq * 0.01, event)) + "\n")


def _tests(count: int) -> Iterator[Case]:
    """Half of them of suite opinfo, half of PyTorch's own files."""
    for number in range(count // 2):
        op, check = f"op{number // 35 % _OPS:03}", _CHECKS[number % 7]
        dtype = _DTYPES[number // 7 % 5]
        variant = f"{dtype}-{number // (35 * _OPS)}"
        yield Case(
            id=f"opinfo::op_db::{op}::{check}[{variant}]",
            kind=CaseKind.OPINFO,
            spec={"op": op, "dtype": dtype, "check": check},
        )
    for number in range(count - count // 2):
        place = f"test_{number // 2000:02}.py::TestSuite{number // 250 % 8}NEURON"
        yield Case(
            id=f"upstream::{place}::test_behaviour_{number:06}_neuron_{_DTYPES[number % 5]}",
            kind=CaseKind.PYTEST,
        )


def _models(count: int) -> Iterator[Case]:
    for number in range(count):
        kind = number // _CLASS_MEMBERS % 200
        yield Case(
            id=f"model::org{number % 977}/model-{number:06}@{number:040x}",
            kind=CaseKind.MODEL,
            spec={
                "task": _TASKS[kind % 5],
                "architecture": f"Kind{kind}ForCausalLM",
                "model_type": f"kind{kind}",
                "library": "transformers",
                "parameters": 1_000_000 * (1 + number % 7000),
                "downloads": 50_000_000 // (1 + number),
            },
        )


def _events(case: Case) -> Iterator[Event]:
    chance = random.Random(case.id)
    stages = MODEL_STAGES if case.kind is CaseKind.MODEL else (Stage.TEST,)
    for stage in stages:
        outcome = _outcome(chance, case)
        yield Entered(case=case.id, attempt=1, stage=stage)
        calls = _calls(chance, case)
        if calls:
            yield OpsRecorded(case=case.id, attempt=1, stage=stage, calls=calls)
        yield _ended(chance, case, stage, outcome)
        if outcome is not Outcome.PASSED:
            break


def _outcome(chance: random.Random, case: Case) -> Outcome:
    share = (0.97, 0.01, 0.015, 0.005) if case.kind is CaseKind.MODEL else (0.82, 0.12, 0.04, 0.02)
    outcomes = (Outcome.PASSED, Outcome.SKIPPED_UPSTREAM, Outcome.FAILED_EXCEPTION, Outcome.FAILED_NUMERIC)
    return chance.choices(outcomes, share)[0]


def _ended(chance: random.Random, case: Case, stage: Stage, outcome: Outcome) -> Ended:
    said = {"exception": "", "message": "", "traceback": ""}
    facts: dict[str, str] = {}
    if outcome is Outcome.SKIPPED_UPSTREAM:
        facts = {"reason": "Only runs on cuda", "category": "only_other_device"}
        said["message"] = "Only runs on cuda"
    elif outcome is not Outcome.PASSED:
        fault = f"operator {chance.choice('abcdefghijklmnopqrst')}{chance.choice('abcdefghij')} went wrong"
        frames = "".join(
            f'  File "torch/x{n}.py", line {chance.randrange(900)}, in f{n}\n' for n in range(12)
        )
        said = {"exception": "RuntimeError", "message": f"{fault} at 0x{chance.randrange(1 << 40):x}"}
        said["traceback"] = f"Traceback (most recent call last):\n{frames}RuntimeError: {fault}"
    seconds = chance.expovariate(20)
    metrics = {"max_abs_error": chance.random() * 1e-6} if outcome is Outcome.PASSED else {}
    return Ended(
        case=case.id,
        attempt=1,
        stage=stage,
        outcome=outcome,
        seconds=seconds,
        metrics=metrics,
        facts=facts,
        **said,
    )


def _calls(chance: random.Random, case: Case) -> tuple[OpCall, ...]:
    if case.kind is CaseKind.MODEL:
        representative = int(case.id.rpartition("@")[2], 16) % _CLASS_MEMBERS == 0
        many: Sequence[int] = range(40) if representative else ()
    else:
        many = range(3)
    first = chance.randrange(_OPS)
    return tuple(_call(chance, (first + number * 7) % _OPS) for number in many)


def _call(chance: random.Random, number: int) -> OpCall:
    fell_back = number % 12 == 0
    calls = chance.randrange(1, 200)
    return OpCall(
        called=f"aten::op{number:03}",
        executed=f"aten::op{number:03}.out",
        dtype=_DTYPES[number % 5],
        device_calls=0 if fell_back else calls,
        fallback_calls=calls if fell_back else 0,
        device_ns=0 if fell_back else calls * 1000,
        fallback_ns=calls * 3000 if fell_back else 0,
        bytes_moved=calls * 512 if fell_back else 0,
    )


def copy_nights(store: Path, size: Size) -> int:
    """Make the other nights from the first, as many as fit; the number of nights there are then."""
    deadline = time.monotonic() + size.seconds
    with writing(store) as connection:
        for number in range(1, size.nights):
            _copy_night(connection, number)
            connection.execute("CHECKPOINT")
            taken = connection.execute("SELECT sum(block_size * used_blocks) FROM pragma_database_size()")
            if taken.fetchall()[0][0] > size.megabytes * 1_000_000 or time.monotonic() > deadline:
                return number + 1
    return size.nights


def run_of(number: int) -> str:
    """The id of the run of a night, from 0."""
    return f"{_BEGAN + datetime.timedelta(days=number):%Y%m%d}{FIRST[8:]}"


_COPIED = (
    "runs",
    "run_starts",
    "run_ends",
    "planned",
    "models",
    "entered",
    "op_calls",
    "worker_starts",
    "worker_ends",
    "ingested_logs",
)


def _copy_night(connection: duckdb.DuckDBPyConnection, number: int) -> None:
    run, later = run_of(number), f"time + INTERVAL {number} DAY AS time"
    timed = {"run_starts", "run_ends", "entered", "worker_starts", "worker_ends"}
    for table in _COPIED:
        replaced = f"$run AS run, {later}" if table in timed else "$run AS run"
        connection.execute(
            f"INSERT INTO {table} SELECT * REPLACE ({replaced}) FROM {table} WHERE run = $first",
            {"run": run, "first": FIRST},
        )
    connection.execute(
        f"INSERT INTO stage_results SELECT * EXCLUDE (changed) REPLACE ($run AS run, {later}, "
        "if(changed, 'failed_numeric', outcome) AS outcome, "
        "if(changed, 'differs from the host', message) AS message, "
        "if(changed, $signature, signature) AS signature) FROM ("
        "SELECT *, outcome = 'passed' AND stage IN ('test', 'compile') "
        "AND hash(case_id, $run) % 200 = 0 AS changed FROM stage_results WHERE run = $first)",
        {"run": run, "first": FIRST, "signature": _any_signature(connection)},
    )


def _any_signature(connection: duckdb.DuckDBPyConnection) -> str:
    found = connection.execute("SELECT min(signature) FROM signatures").fetchall()
    return str(found[0][0] or "")
