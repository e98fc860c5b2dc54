"""Faults on demand happen where, when and as they were asked for."""

import signal
import time

import pytest
import torch

import torchneuron_backend
from tests.torchneuron_backend.conftest import run_python
from torchneuron_backend import faults

MM = "import torch; x = torch.ones(2, 2, device='neuron'); x.mm(x); print('alive')"
BLOCKING = {"NEURON_LAUNCH_BLOCKING": "1"}  # asynchronous/test_errors.py has the same faults in the queue


@pytest.mark.parametrize(("kind", "sent"), [("crash", signal.SIGSEGV), ("abort", signal.SIGABRT)])
def test_the_process_dies_by_the_signal(kind: str, sent: int) -> None:
    done = run_python(
        MM + "; x.mm(x); print('not reached')", TORCHNEURON_FAULTS=f"aten::mm:{kind}@2", **BLOCKING
    )
    assert done.returncode == -sent
    assert "not reached" not in done.stdout


def test_a_hang_hangs_and_leaves_other_threads_running() -> None:
    code = (
        "import os, threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.5), os._exit(7))).start()\n" + MM
    )
    started = time.monotonic()
    done = run_python(code, TORCHNEURON_FAULTS="aten::mm:hang", **BLOCKING)
    assert (done.returncode, done.stdout) == (7, "")
    assert time.monotonic() - started < 60


@pytest.mark.usefixtures("blocking_launch")
def test_errors_come_at_the_nth_call_and_once() -> None:
    x = torch.ones(2, 2, device="neuron")
    faults.set("aten::mm", "error", at=2)
    x.mm(x)
    with pytest.raises(RuntimeError, match="injected fault: aten::mm failed on neuron:0"):
        x.mm(x)
    assert x.mm(x).tolist() == [[2, 2], [2, 2]]


def test_out_of_memory() -> None:
    x = torch.ones(2, 2, device="neuron")
    faults.set("aten::mm", "oom")
    with pytest.raises(torch.OutOfMemoryError, match="neuron:0 out of memory"):
        x.mm(x)


@pytest.mark.parametrize("in_place", [False, True])
def test_nan_spoils_the_result(in_place: bool) -> None:
    x = torch.ones(2, device="neuron")
    faults.set("aten::mul_.Tensor" if in_place else "aten::mul.Tensor", "nan")
    result = x.mul_(x) if in_place else x.mul(x)
    assert result.isnan().all()
    assert x.isnan().all().item() == in_place


def test_wrong_dtype_and_wrong_shape() -> None:
    x = torch.ones(2, 2, device="neuron")
    faults.set("aten::mm", "wrong_dtype")
    assert x.mm(x).dtype == torch.float64
    faults.set("aten::mm", "wrong_shape")
    assert x.mm(x).shape == (1, 2, 2)


def test_nondeterminism_differs_between_calls_by_little() -> None:
    x = torch.ones(16, device="neuron")
    results = []
    for _ in range(2):
        faults.set("aten::mul.Tensor", "nondeterminism")
        results.append(x.mul(x).cpu())
    assert not results[0].equal(results[1])
    torch.testing.assert_close(results[0], results[1], rtol=2e-3, atol=0)


def test_a_silent_fallback_copies_and_says_native() -> None:
    x = torch.ones(2, 2, device="neuron")
    faults.set("aten::mm", "silent_fallback")
    torchneuron_backend.reset_op_counters()
    assert x.mm(x).tolist() == [[2, 2], [2, 2]]
    (row,) = (r for r in torchneuron_backend.op_counters() if r["op"] == "aten::mm")
    assert row["route"] == "native"
    assert row["bytes"] == 32  # the same tensor twice, once there; the result once back


def test_a_late_error_waits_for_the_next_synchronisation() -> None:
    x = torch.ones(2, 2, device="neuron")
    for synchronise in (torch.neuron.synchronize, x.cpu, lambda: x[0, 0].item()):
        faults.set("aten::mm", "late_error")
        x.mm(x)
        with pytest.raises(RuntimeError, match="aten::mm failed on the device, seen at this synchronisation"):
            synchronise()
        synchronise()


def test_faults_can_be_taken_back() -> None:
    faults.set("aten::mm", "error")
    faults.clear()
    x = torch.ones(2, 2, device="neuron")
    assert x.mm(x)[0, 0].item() == 2


def test_copies_and_allocation_can_fail_too() -> None:
    faults.set("aten::_copy_from", "error")
    with pytest.raises(RuntimeError, match="injected fault: aten::_copy_from"):
        torch.ones(1).to("neuron")
    faults.set("aten::empty.memory_format", "oom")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1, device="neuron")


def test_the_environment_names_ops_kinds_and_calls() -> None:
    assert faults.parse("aten::mm:hang@3; aten::add.Tensor:crash") == [
        ("aten::mm", "hang", 3),
        ("aten::add.Tensor", "crash", 1),
    ]
    assert faults.parse("") == []


def set_all(text: str) -> None:
    for op, kind, at in faults.parse(text):
        faults.set(op, kind, at)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("mm:hang", "'mm:hang' is not a fault: write OPERATOR:KIND"),
        ("aten::mm:hang@x", "'aten::mm:hang@x' is not a fault"),
        ("aten::mm:explode", "there is no fault 'explode'; the faults are: crash, abort, hang"),
        ("aten::mn:hang", "there is no operator 'aten::mn'"),
        ("aten::mm:hang@0", "a fault fires at call 1 or later"),
        ("aten::_copy_from:nan", "'aten::_copy_from' moves data and computes nothing"),
    ],
)
def test_a_fault_that_makes_no_sense_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="^" + sentence):
        set_all(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("aten::mm:explode", "TORCHNEURON_FAULTS: there is no fault 'explode'"),
        ("aten::_copy_from:nan", "TORCHNEURON_FAULTS: 'aten::_copy_from' moves data and computes nothing"),
    ],
)
def test_a_bad_variable_stops_the_import_and_is_named(text: str, sentence: str) -> None:
    done = run_python("import torch", TORCHNEURON_FAULTS=text)
    assert done.returncode != 0
    assert sentence in done.stderr
