"""What a compiled graph does with memory: it reads and writes the device's own, and lets go of it in time."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

import torchneuron_backend.compiler as compiler

from .opaque import opaque

ROWS = 64
BYTES = ROWS * 1024 * 4


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()


class Spy:
    """Notes the addresses at which XLA reads its inputs and has its results."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from jaxlib import _jax

        self.read: list[int] = []
        self.written: list[int] = []
        take, give = _jax.dlpack_managed_tensor_to_buffer, _jax.buffer_to_dlpack_managed_tensor

        def taken(*arguments: Any) -> Any:
            buffer = take(*arguments)
            self.read.append(buffer.unsafe_buffer_pointer())
            return buffer

        def given(buffer: Any, *arguments: Any) -> Any:
            self.written.append(buffer.unsafe_buffer_pointer())
            return give(buffer, *arguments)

        monkeypatch.setattr(_jax, "dlpack_managed_tensor_to_buffer", taken)
        monkeypatch.setattr(_jax, "buffer_to_dlpack_managed_tensor", given)


def test_a_program_reads_and_writes_device_memory_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    add = torch.compile(lambda a, b: (a + b, a * b), backend="neuron", fullgraph=True)
    x, y = (torch.ones(ROWS, 1024, device="neuron") for _ in range(2))
    spy = Spy(monkeypatch)
    total, product = add(x, y)
    assert spy.read == [x.data_ptr(), y.data_ptr()]
    # In protect mode results are copied into memory that is closed to the host.
    adopted = os.environ.get("TORCHNEURON_PROTECT", "0") != "1"
    assert (spy.written == [total.data_ptr(), product.data_ptr()]) == adopted
    assert total.device.type == product.device.type == "neuron"


def test_what_is_not_aligned_or_not_in_order_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    double = torch.compile(lambda a: a * 2, backend="neuron", fullgraph=True)
    x = torch.ones(ROWS, ROWS, device="neuron")
    spy = Spy(monkeypatch)
    double(x.t())
    double(x.view(-1)[1:])
    assert x.data_ptr() not in spy.read
    assert x.data_ptr() + 4 not in spy.read


def peak_of(function: Any, *arguments: torch.Tensor) -> int:
    """Bytes that a call needs at its peak beyond what was there before, its results included."""
    before = torch.accelerator.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    function(*arguments)
    return torch.accelerator.max_memory_allocated() - before


def chain(x: torch.Tensor) -> torch.Tensor:
    for _ in range(6):
        x = opaque(x * 0.5) + 1
    return x


def test_a_graph_in_pieces_keeps_no_value_longer_than_it_is_read() -> None:
    compiled = torch.compile(chain, backend="neuron", fullgraph=True)
    x = torch.ones(ROWS, 1024, device="neuron")
    compiled(x)
    assert compiler.get_dynamo_metrics()["partitions"] == 7
    # What one call reads and what it makes, and room for the copies of a fallback.
    assert peak_of(compiled, x) <= 4 * BYTES


def test_a_backward_in_pieces_lets_go_of_what_forward_saved() -> None:
    compiled = torch.compile(lambda v: chain(v).sum(), backend="neuron", fullgraph=True)
    x = torch.ones(ROWS, 1024, device="neuron", requires_grad=True)
    compiled(x).backward()
    x.grad = None
    loss = compiled(x)
    saved = torch.accelerator.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    loss.backward()
    # Six saved values go one after the other; held to the end, they would come on top of what backward makes.
    assert torch.accelerator.max_memory_allocated() - saved <= 3 * BYTES
    assert torch.accelerator.memory_allocated() < saved
