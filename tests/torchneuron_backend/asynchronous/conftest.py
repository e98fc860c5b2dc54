"""Asynchronous launch for all tests here."""

import threading
from collections.abc import Iterator

import pytest

import torchneuron_backend
from tests.torchneuron_backend.asynchronous.work import entered, gate, gates, mark, ones, passed
from torchneuron_backend import launch


@pytest.fixture(autouse=True)
def asynchronous() -> Iterator[None]:
    """Asynchronous launch, closed gates, and the device past the first calls, which it waits for."""
    before = launch.is_launch_blocking()
    launch.set_launch_blocking(False)
    gates.clear()
    gates.update({number: threading.Event() for number in range(3)})
    gates[9] = threading.Event()
    gates[9].set()
    for device in ("neuron:0", "neuron:1"):
        gate(ones(device=device), 9)
        mark(ones(device=device), 9)
    torchneuron_backend.reset_op_counters()
    passed.clear()
    entered.clear()
    yield
    for event in gates.values():
        event.set()
    launch.set_launch_blocking(before)
