"""Errors of queued work: when they are raised, what they stop, and what they leave."""

import copy
import signal
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchneuron_backend
from tests.torchneuron_backend.asynchronous.work import gate, gates, learn, mark, ones, passed
from tests.torchneuron_backend.conftest import run_python
from torchneuron_backend import faults, memory


def late() -> None:
    mark(ones(), -1)


SYNCHRONISATIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "torch.neuron.synchronize": lambda x: torch.neuron.synchronize(),
    "torch.accelerator.synchronize": lambda x: torch.accelerator.synchronize(),
    "stream.synchronize": lambda x: torch.neuron.current_stream().synchronize(),
    "event.synchronize": lambda x: torch.neuron.current_stream().record_event().synchronize(),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "from pageable memory": lambda x: x.copy_(torch.zeros(4)),
    "print": lambda x: repr(x),
    "bool": lambda x: bool(x[0] > 0),
    "fallback": lambda x: torch.ops.neuron_tests.two(x),
    "another kind of call": lambda x: torch.special.i0e(x.view(2, 2).view(4)[:3]),
    "a shape that depends on the data": lambda x: x.nonzero(),
    "host_alias": lambda x: memory.host_alias(x),
    "dlpack": lambda x: x.__dlpack__(),
    "to_dlpack": lambda x: torch.utils.dlpack.to_dlpack(x),
    "deepcopy to the host": lambda x: copy.deepcopy(x).cpu(),
}


@pytest.mark.parametrize("how", SYNCHRONISATIONS)
def test_an_error_is_raised_at_the_next_synchronisation_and_names_the_operator(how: str) -> None:
    x = ones()
    late()
    sentence = (
        r"^neuron_streams::mark failed on neuron:0 in the default stream and is reported now, at a "
        r"synchronisation; what was queued behind it has been dropped: ValueError: mark -1"
    )
    with pytest.raises(RuntimeError, match=sentence):
        SYNCHRONISATIONS[how](x)
    SYNCHRONISATIONS[how](x)  # once


def test_an_index_out_of_range_is_found_late() -> None:
    table = ones(3, 2)
    learn(lambda: table.index_select(0, torch.tensor([0, 1], device="neuron")))
    bad = torch.tensor([0, 7], device="neuron")
    table.index_select(0, bad)
    with pytest.raises(RuntimeError, match=r"aten::index_select failed on neuron:0 .* out of range"):
        torch.neuron.synchronize()


def test_errors_in_arguments_are_raised_by_the_call() -> None:
    x = ones(2, 3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
            x.mm(x)
        with pytest.raises(RuntimeError, match="must match"):
            x.add_(ones(5))
        with pytest.raises(RuntimeError, match=r"expand|match"):
            x.copy_(ones(7))
    torch.neuron.synchronize()


def test_what_is_behind_an_error_is_dropped_and_then_the_stream_works_again() -> None:
    x = ones()
    learn(lambda: x.clone().add_(1))
    y = x.clone()
    torch.neuron.synchronize()
    gate(x)
    mark(x, -5)
    y.add_(1)
    mark(x, 6)
    gates[0].set()
    with pytest.raises(RuntimeError, match="mark -5"):
        torch.neuron.synchronize()
    assert passed == [0, -5]
    assert y.tolist() == [1] * 4
    assert y.add_(1).tolist() == [2] * 4
    rows = {r["op"]: r["calls"] for r in torchneuron_backend.op_counters()}
    assert "neuron_streams::mark" not in rows  # neither what raised nor what was dropped
    assert rows["neuron_streams::gate"] == 1


def test_an_error_stops_the_streams_that_wait_for_it_and_no_other() -> None:
    failing, waiting, free = (torch.neuron.Stream() for _ in range(3))
    there = torch.neuron.Stream(1)
    x, y = ones(), ones(device="neuron:1")
    torch.neuron.synchronize()
    torch.neuron.synchronize(1)
    with failing:
        gate(x)
        mark(x, -1)
    for stream in (waiting, there):
        stream.wait_stream(failing)
    with waiting:
        mark(x, 1)
    with there:
        mark(y, 2)
    with free:
        mark(x, 3)
    gates[0].set()
    free.synchronize()
    with pytest.raises(RuntimeError, match=f"in stream {failing.stream_id} .*mark -1"):
        there.synchronize()
    for device in (0, 1):
        torch.neuron.synchronize(device)
    assert sorted(passed) == [-1, 0, 3]


def test_injected_errors_come_by_the_queue() -> None:
    x = ones(2, 2)
    learn(lambda: x.mm(x))
    for kind in ("error", "late_error"):
        faults.set("aten::mm", kind, at=2)
        x.mm(x)
        x.mm(x)
        with pytest.raises(RuntimeError, match=r"aten::mm failed on neuron:0 .*injected fault: aten::mm"):
            torch.neuron.synchronize()
    faults.set("aten::_copy_from", "error")
    x.clone()
    with pytest.raises(RuntimeError, match="injected fault: aten::_copy_from"):
        x.cpu()


@pytest.mark.parametrize(("kind", "sent"), [("crash", signal.SIGSEGV), ("abort", signal.SIGABRT)])
def test_a_process_dies_in_its_queue(kind: str, sent: int) -> None:
    code = (
        "import torch; x = torch.ones(2, 2, device='neuron'); x.mm(x); x.mm(x)\n"
        "print('launched', flush=True); torch.neuron.synchronize(); print('alive')"
    )
    done = run_python(code, NEURON_LAUNCH_BLOCKING="0", TORCHNEURON_FAULTS=f"aten::mm:{kind}@2")
    assert done.returncode == -sent
    assert "alive" not in done.stdout


def test_a_hang_leaves_the_host_running_until_it_waits() -> None:
    code = (
        "import os, threading, torch; x = torch.ones(2, 2, device='neuron'); x.mm(x); x.mm(x)\n"
        "print(torch.neuron.current_stream().query(), flush=True)\n"
        "threading.Timer(0.5, os._exit, [7]).start(); torch.neuron.synchronize(); print('not reached')"
    )
    done = run_python(code, NEURON_LAUNCH_BLOCKING="0", TORCHNEURON_FAULTS="aten::mm:hang@2")
    assert (done.returncode, done.stdout) == (7, "False\n")


@pytest.mark.parametrize("kind", ["nan", "wrong_dtype", "wrong_shape", "oom", "silent_fallback"])
def test_faults_that_change_a_result_are_seen_by_the_call(kind: str) -> None:
    x = ones(2, 2)
    learn(lambda: x.mm(x))
    faults.set("aten::mm", kind)
    if kind == "oom":
        with pytest.raises(torch.OutOfMemoryError):
            x.mm(x)
        return
    y = x.mm(x)
    assert y.isnan().all() == (kind == "nan")
    assert (y.dtype == torch.float64) == (kind == "wrong_dtype")
    assert (y.dim() == 3) == (kind == "wrong_shape")


def test_a_warning_is_given_by_the_next_synchronisation() -> None:
    x = ones(1)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        x.var()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gate(ones())
        x.var()
        assert caught == []
        gates[0].set()
        torch.neuron.synchronize()
    assert ["degrees of freedom" in str(warning.message) for warning in caught] == [True]
