"""Work for the queue that ends when a test says so: nothing depends on how fast anything is.

A custom operator whose host kernel waits for a gate stands in for slow work.
"""

import threading
from collections.abc import Callable
from typing import Any

import torch

from torchneuron_backend import _C

LIBRARY = torch.library.Library("neuron_streams", "DEF")
LIBRARY.define("gate(Tensor x, Scalar number) -> Tensor")
LIBRARY.define("mark(Tensor x, Scalar number) -> Tensor")

gates: dict[int, threading.Event] = {}
passed: list[int] = []
entered = threading.Event()
"""Whether a gate has been reached in this test, and so holds up the device's queue."""


def _gate(x: torch.Tensor, number: int) -> torch.Tensor:
    entered.set()
    assert gates[number].wait(60)
    return _mark(x, number)


def _mark(x: torch.Tensor, number: int) -> torch.Tensor:
    passed.append(number)
    if number < 0:
        raise ValueError(f"mark {number}")
    return x + 1


LIBRARY.impl("gate", _gate, "CPU")
LIBRARY.impl("mark", _mark, "CPU")
FLOAT32 = 1 << _C.dtype_number(torch.float32)
_C.register_lowerings([("neuron_streams::gate", FLOAT32), ("neuron_streams::mark", FLOAT32)])


def gate(x: torch.Tensor, number: int = 0) -> torch.Tensor:
    """Work that does not end before ``gates[number]`` is open; x + 1."""
    result: torch.Tensor = torch.ops.neuron_streams.gate(x, number)
    return result


def mark(x: torch.Tensor, number: int) -> torch.Tensor:
    """Work that notes its number; x + 1. Fails when the number is negative."""
    result: torch.Tensor = torch.ops.neuron_streams.mark(x, number)
    return result


def ones(*shape: int, device: str = "neuron:0") -> torch.Tensor:
    return torch.ones(*(shape or (4,)), device=device)


def learn(*calls: Callable[[], Any]) -> None:
    """Make calls once, so that the next of their kind are launched and not waited for."""
    for call in calls:
        call()
    torch.neuron.synchronize()
