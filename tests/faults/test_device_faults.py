"""A night on a simulated device that has every fault at once, each in an operator of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import results
from results.layout import run_folders
from results.plan import load_plan
from results.vocabulary import Fate
from tests.faults.runs import account
from tests.harness.night import Night

pytestmark = pytest.mark.nightly

FAULTS = {
    "ceil": ("aten::ceil", "crash", "crashed", "SIGSEGV"),
    "cos": ("aten::cos", "abort", "crashed", "SIGABRT"),
    "cosh": ("aten::cosh", "hang", "timed_out", "longer than 20 s"),
    "cumprod": ("aten::cumprod", "oom", "out_of_memory", "memory"),
    "cumsum": ("aten::cumsum", "error", "failed_exception", ""),
    "sigmoid": ("aten::sigmoid", "nan", "failed_numeric", ""),
    "sign": ("aten::sign", "wrong_shape", "failed_numeric", "shape"),
    "sin": ("aten::sin", "wrong_dtype", "failed_numeric", "dtype"),
    "sinc": ("aten::sinc", "late_error", "failed_exception", ""),
    "softmax": ("aten::_softmax", "nondeterminism", "failed_numeric", ""),
}
"""Case → the one overload that no other case executes, its fault, the outcome, and words of the message."""

DEATHS = {"ceil": Fate.SIGNALLED, "cos": Fate.SIGNALLED, "cosh": Fate.KILLED_AT_DEADLINE}


def test_every_fault_of_the_device_costs_its_own_case(tmp_path: Path) -> None:
    night = Night(
        tmp_path, "embedded", "--suites", "opinfo", "--test-filter", "opinfo::op_db::[cs]*float32*",
        "--workers", "1", "--set", "attempts=1", "--set", "deadlines.test=20",
        faults=";".join(f"{op}:{kind}" for op, kind, _, _ in FAULTS.values()),
    )  # fmt: skip
    code, output = night.wait(500)
    assert code == 1, output
    (folder,) = run_folders(tmp_path)
    planned = [case.id for case in load_plan(folder).cases]
    assert len(planned) > 2 * len(FAULTS)
    hurt = {case_id(name): outcome for name, (_, _, outcome, _) in FAULTS.items()}
    account(tmp_path, planned, hurt, [(fate, case_id(name)) for name, fate in DEATHS.items()])
    with results.open(tmp_path) as store:
        messages = {row["case_id"]: row["message"] for row in store.rows("v_cases", run=folder.name)}
    for name, (_, _, _, words) in FAULTS.items():
        assert words in messages[case_id(name)]


def case_id(name: str) -> str:
    return f"opinfo::op_db::{name}::forward[float32]"
