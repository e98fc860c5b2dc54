"""Event records survive a round trip, and a damaged log is told from a torn one."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results import events
from results.events import (
    Ended,
    Entered,
    EventLog,
    EventLogError,
    OpCall,
    OpsRecorded,
    Record,
    RunEnded,
    RunStarted,
    WorkerEnded,
    WorkerStarted,
    decode,
    encode,
    read_log,
)
from results.vocabulary import Evidence, Fate, Outcome, RunState, Stage

counts = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(), max_size=30)
floats = st.floats()
_BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": texts,
    "int": counts,
    "bool": st.booleans(),
    "float": floats,
    "Mapping[str, str]": st.dictionaries(texts, texts, max_size=3),
    "Mapping[str, float]": st.dictionaries(texts, floats, max_size=3),
    "Stage": st.sampled_from(Stage),
    "Outcome": st.sampled_from(Outcome),
    "Fate": st.sampled_from(Fate),
    "RunState": st.sampled_from(RunState),
    "Evidence": st.sampled_from(Evidence),
}


def _of(cls: type, **given_: Any) -> st.SearchStrategy[Any]:
    fields = {f.name: _BY_TYPE[str(f.type)] for f in dataclasses.fields(cls) if f.name not in given_}
    return st.builds(cls, **fields, **given_)


any_event = st.one_of(
    *(_of(cls) for cls in (RunStarted, WorkerStarted, Entered, Ended, WorkerEnded, RunEnded)),
    _of(OpsRecorded, calls=st.lists(_of(OpCall), max_size=3).map(tuple)),
)
any_record = st.builds(Record, counts, st.floats(0, 4e9), any_event)


def _same(one: Any, two: Any) -> bool:
    """Equality in which NaN equals itself."""
    if isinstance(one, float) and isinstance(two, float):
        return one == two or (math.isnan(one) and math.isnan(two))
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(two) and all(_same(getattr(one, n), getattr(two, n)) for n in names)
    return bool(one == two)


@given(any_record)
def test_a_record_survives_a_round_trip_on_one_line_of_plain_json(record: Record) -> None:
    line = encode(record)
    assert "\n" not in line
    assert line.isascii()
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert _same(decode(line), record)


def _entered(**changes: Any) -> str:
    body = json.loads(encode(Record(0, 1.0, Entered(case="s::a", attempt=1, stage=Stage.TEST))))
    return json.dumps(body | changes)


def test_unknown_fields_are_ignored_so_that_a_later_harness_may_add_some() -> None:
    assert decode(_entered(colour="red")).event == Entered(case="s::a", attempt=1, stage=Stage.TEST)


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": "1"},
        {"v": True},
        {"kind": "exploded"},
        {"kind": ["entered"]},
        {"stage": "lunch"},
        {"attempt": "1"},
        {"attempt": True},
        {"attempt": 1.5},
        {"case": 7},
        {"case": None},
        {"seq": None},
        {"seq": 0.5},
        {"t": "late"},
        {"t": 10**400},
    ],
)
def test_a_wrong_field_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(EventLogError):
        decode(_entered(**change))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(events._KINDS)), st.data())
def test_whatever_the_fields_hold_decode_gives_a_record_or_its_own_error(kind: str, data: Any) -> None:
    body: dict[str, Any] = {"v": 1, "kind": kind}
    names = ["seq", "t", *(f.name for f in dataclasses.fields(events._KINDS[kind]))]
    for name in names:
        body[name] = data.draw(json_values, label=name)
    try:
        decode(json.dumps(body))
    except EventLogError:
        return


@given(st.text(max_size=40))
def test_any_text_gives_a_record_or_its_own_error(line: str) -> None:
    with pytest.raises(EventLogError):
        decode(line)


def _write(path: Path, count: int) -> None:
    with EventLog(path) as log:
        for number in range(count):
            log.write(Entered(case=f"s::{number}", attempt=1, stage=Stage.TEST))


def test_a_torn_last_line_is_dropped_and_writing_goes_on_after_it(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    _write(path, 3)
    path.write_bytes(path.read_bytes()[:-5])
    assert [record.seq for record in read_log(path)] == [0, 1]
    _write(path, 1)
    assert [record.seq for record in read_log(path)] == [0, 1, 2]
    assert [record.seq for record in read_log(path, start=2)] == [2]


def test_a_damaged_line_inside_is_an_error_that_says_where(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    _write(path, 3)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + "garbage\n" + lines[2])
    with pytest.raises(EventLogError, match=r"w\.jsonl:2: not an event record"):
        list(read_log(path))


@pytest.mark.parametrize("keep", [(0, 2), (1, 2), (0, 0, 1)])
def test_a_gap_or_a_repetition_in_the_numbering_is_an_error(tmp_path: Path, keep: tuple[int, ...]) -> None:
    path = tmp_path / "w.jsonl"
    _write(path, 3)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[number] for number in keep))
    with pytest.raises(EventLogError, match="expected record"):
        list(read_log(path))


def test_what_was_written_before_a_sigkill_is_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    script = (
        "import os, sys; from pathlib import Path; from results.events import *\n"
        "log = EventLog(Path(sys.argv[1]))\n"
        "log.write(Entered(case='s::a', attempt=1, stage=Stage.TEST))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    root = Path(events.__file__).parents[1]
    child = subprocess.run(
        [sys.executable, "-c", script, str(path)], env=os.environ | {"PYTHONPATH": str(root)}, check=False
    )
    assert child.returncode == -signal.SIGKILL
    assert [record.event for record in read_log(path)] == [Entered(case="s::a", attempt=1, stage=Stage.TEST)]
