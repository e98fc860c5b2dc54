"""Counters and traces: what ran, on which route, in which thread."""

import threading
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import torchneuron_backend

MM, ADD = "aten::mm", "aten::add.Tensor"


def row(op: str, **wanted: str) -> dict[str, Any]:
    found = [
        r
        for r in torchneuron_backend.op_counters()
        if r["op"] == op and all(r[k] == v for k, v in wanted.items())
    ]
    assert len(found) == 1, (op, wanted, torchneuron_backend.op_counters())
    return found[0]


def test_a_native_op_counts_calls_and_time_and_moves_nothing() -> None:
    x = torch.ones(8, 8, device="neuron")
    torchneuron_backend.reset_op_counters()
    for _ in range(3):
        x.mm(x)
    counted = row(MM, dtype="float32")
    assert (counted["route"], counted["kind"], counted["calls"], counted["bytes"]) == (
        "native",
        "compute",
        3,
        0,
    )
    assert 0 < counted["ns"] < 1e9
    torchneuron_backend.reset_op_counters()
    assert torchneuron_backend.op_counters() == []


def test_a_fallback_counts_the_bytes_it_moves() -> None:
    x = torch.ones(10, device="neuron")
    torch.ops.neuron_tests.two(x)
    counted = row("neuron_tests::two")
    assert (counted["route"], counted["dtype"], counted["calls"]) == ("fallback", "float32", 1)
    assert counted["bytes"] == 10 * 4 * 3  # the argument out, the result and the new half of the list back


def test_copies_are_told_apart_from_compute() -> None:
    x = torch.ones(10)
    y = x.to("neuron")
    y.clone().copy_(y)
    y.cpu()
    y[0].item()
    rows = {r["op"]: r for r in torchneuron_backend.op_counters()}
    assert rows["aten::_copy_from"]["kind"] == "copy"
    assert rows["aten::_copy_from"]["bytes"] == 80  # one way and back; within the device nothing crosses
    assert rows["aten::_local_scalar_dense"]["kind"] == "copy"
    assert {r["kind"] for r in rows.values() if r["op"].startswith("aten::empty")} == {"meta"}


def test_calls_are_told_apart_by_dtype() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.ones(2, 2, device="neuron", dtype=dtype)
        x.mm(x)
    assert {r["dtype"] for r in torchneuron_backend.op_counters() if r["op"] == MM} == {"float32", "bfloat16"}


def test_the_table_decides_the_route() -> None:
    entries = torchneuron_backend.lowerings()["entries"]
    native = {(e["op"], e["dtype"]) for e in entries if e["status"] == "native" and "when" not in e}
    for op in (MM, ADD):
        for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.int64):
            name = str(dtype).removeprefix("torch.")
            assert torchneuron_backend.is_native(op, dtype) == ((op, name) in native), (op, dtype)
    x = torch.ones(2, 2, device="neuron", dtype=torch.complex64)
    x.mm(x)
    expected = "native" if torchneuron_backend.is_native(MM, torch.complex64) else "fallback"
    assert row(MM)["route"] == expected


def test_in_place_and_out_variants_follow_the_functional_form() -> None:
    for variant in ("aten::add_.Tensor", "aten::add.out"):
        assert torchneuron_backend.is_native(variant, torch.float32) == torchneuron_backend.is_native(
            ADD, torch.float32
        )
    x = torch.ones(2, device="neuron")
    x.add_(x)
    torch.add(x, x, out=x)
    routes = {r["op"]: r["route"] for r in torchneuron_backend.op_counters() if r["kind"] == "compute"}
    assert routes["aten::add_.Tensor"] == routes["aten::add.out"] == "native"


def test_kernels_of_the_devices_own_are_native_and_composite_ops_have_none() -> None:
    for op in ("aten::empty.memory_format", "aten::view", "aten::_copy_from"):
        assert torchneuron_backend.is_native(op, torch.complex128)
    for op in ("aten::linear", "aten::there_is_no_such_op"):
        assert not torchneuron_backend.is_native(op, torch.float32)


def test_names_are_tracked_as_on_the_real_device() -> None:
    x = torch.ones(4, device="neuron")
    torchneuron_backend.clear_op_tracking()
    (x + 1).double().cosh()
    assert torchneuron_backend.get_executed_ops() == {"aten::add.Tensor", "aten::cosh"}
    assert torchneuron_backend.get_fallback_ops() == {"aten::cosh"}
    torchneuron_backend.clear_op_tracking()
    assert torchneuron_backend.get_executed_ops() == set()


def test_composite_ops_are_counted_by_their_parts() -> None:
    layer = torch.nn.Linear(3, 3).to("neuron")
    layer(torch.ones(2, 3, device="neuron"))
    names = {r["op"] for r in torchneuron_backend.op_counters()}
    assert "aten::addmm" in names
    assert "aten::linear" not in names


def test_calls_from_many_threads_all_count() -> None:
    x = torch.ones(2, 2, device="neuron")
    torchneuron_backend.reset_op_counters()

    def work() -> None:
        for _ in range(200):
            torch.mm(x, x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert row(MM)["calls"] == 800


def test_a_kernel_that_raises_is_not_counted() -> None:
    x = torch.ones(2, 3, device="neuron")
    torchneuron_backend.reset_op_counters()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.mm(x, x)
    assert all(r["op"] != MM for r in torchneuron_backend.op_counters())


def test_a_trace_notes_the_kernels_of_this_thread() -> None:
    x = torch.ones(2, 2, device="neuron")
    assert torchneuron_backend.take_op_trace() == []
    torchneuron_backend.start_op_trace()
    x.mm(x)
    assert torchneuron_backend.take_op_trace() == [(MM, "float32", "native")]
    assert torchneuron_backend.take_op_trace() == []
    thread = threading.Thread(target=lambda: x.add(x))
    thread.start()
    thread.join()
    assert torchneuron_backend.take_op_trace() == []
    torchneuron_backend.stop_op_trace()
    x.mm(x)
    assert torchneuron_backend.take_op_trace() == []


class Pairing(TorchDispatchMode):
    """Pairs each called operator with the kernels it executed, as a harness does."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[str, tuple[str, ...]]] = []
        self.threads: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        torchneuron_backend.take_op_trace()
        result = func(*args, **(kwargs or {}))
        executed = tuple(op for op, _, _ in torchneuron_backend.take_op_trace())
        self.pairs.append((func._schema.name, executed))
        self.threads.add(threading.get_ident())
        return result


def test_a_trace_pairs_called_ops_with_kernels_in_autograds_threads_too() -> None:
    weight = torch.ones(3, 3, device="neuron", requires_grad=True)
    torchneuron_backend.start_op_trace()
    with Pairing() as mode:
        weight.mm(weight).relu().sum().backward()
    pairs = dict(mode.pairs)
    assert pairs["aten::relu"] == ("aten::relu",)
    assert pairs["aten::threshold_backward"] == ("aten::threshold_backward",)
    assert len(mode.threads) == 2
