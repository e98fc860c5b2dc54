"""Copies and memory: nothing is read, written or reused before its turn."""

import threading

import pytest
import torch

import torchneuron_backend
from tests.torchneuron_backend.asynchronous.work import gate, gates, learn, ones, passed


def test_copies_from_and_to_pinned_memory_are_queued() -> None:
    host, back = torch.full((4,), 5.0).pin_memory(), torch.zeros(4).pin_memory()
    x = ones()
    gate(x)
    x.copy_(host, non_blocking=True)
    back.copy_(x, non_blocking=True)
    assert passed == []
    gates[0].set()
    torch.neuron.synchronize()
    assert back.tolist() == [5] * 4


def test_pinned_memory_that_is_let_go_is_not_reused_before_it_was_read() -> None:
    x = ones()
    gate(x)
    x.copy_(torch.full((4,), 5.0).pin_memory(), non_blocking=True)
    others = [torch.zeros(4).pin_memory() for _ in range(4)]
    gates[0].set()
    assert x.tolist() == [5] * 4
    assert len(others) == 4


def test_a_copy_between_devices_waits_for_both_and_both_wait_for_it() -> None:
    source, target = ones(device="neuron:0"), ones(device="neuron:1")
    learn(lambda: source.clone().add_(1))
    torch.neuron.synchronize(1)
    gate(source, 0)
    source.add_(6)
    target.copy_(source)  # not before the 7
    source.add_(1)  # not before it was copied
    gates[0].set()
    assert target.tolist() == [7] * 4
    assert source.tolist() == [8] * 4
    gate(target, 1)
    target.copy_(source)
    torch.neuron.current_stream(0).query()
    gates[1].set()
    assert target.tolist() == [8] * 4


def test_overlapping_memory_is_copied_or_refused_as_always() -> None:
    x = torch.arange(6.0, device="neuron")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"single memory location|overlap"):
            x.expand(2, 6).copy_(ones(2, 6))
        with pytest.raises(RuntimeError, match="memory"):
            x[1:].copy_(x[:-1])


def test_memory_is_not_reused_before_the_work_that_uses_it_is_done() -> None:
    x = torch.full((1024,), 7.0, device="neuron")
    small = ones()
    learn(lambda: torch.zeros(1024, device="neuron") + 1)
    side = torch.neuron.Stream()
    with side:
        gate(small)
        y = x + 1
    address = x.data_ptr()
    x.record_stream(side)
    del x
    others = [torch.zeros(1024, device="neuron") for _ in range(4)]
    assert all(other.data_ptr() != address for other in others)
    gates[0].set()
    side.synchronize()
    assert y.eq(8).all().item()


def test_memory_that_only_the_queue_holds_is_waited_for_before_there_is_none() -> None:
    torch.neuron.empty_cache()
    x = torch.zeros(2**20, device="neuron")  # 4 MiB
    learn(lambda: x + 1)
    torch.neuron.empty_cache()
    torch.neuron.set_memory_limit(torch.neuron.memory_reserved() + 10 * 2**20)
    try:
        for _ in range(20):
            x + 1
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(2**23, device="neuron")
    finally:
        torch.neuron.set_memory_limit(0)


def test_statistics_are_read_when_the_queue_is_empty() -> None:
    x = ones(1000)
    learn(lambda: x + 1)
    before = torch.neuron.memory_allocated()
    for _ in range(50):
        x + 1
    assert torch.neuron.memory_allocated() == before
    calls = {row["op"]: row["calls"] for row in torchneuron_backend.op_counters()}
    assert calls["aten::add.Tensor"] == 51


def test_resizing_waits_for_what_uses_the_memory() -> None:
    x = ones()
    learn(lambda: x + 1)
    threading.Timer(0.05, gates[0].set).start()
    gate(x)
    y = x + 1
    x.resize_(4096).fill_(3)
    assert y.tolist() == [2] * 4
