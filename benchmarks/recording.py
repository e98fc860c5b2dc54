"""What it costs to record op calls: nothing, the device's own counters, a dispatch mode, the profiler.

    python benchmarks/recording.py

One addition of two 4-element tensors on ``neuron``, repeated; the median of five rounds, each way in
turn, so that noise falls on all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

from harness.devices.neuron import NeuronDevice
from harness.devices.shadow import ShadowRecorder

CALLS = 20_000
ROUNDS = 5


def main() -> None:
    """Print microseconds an op for each way of recording."""
    device = NeuronDevice()
    ways: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "no recorder": nullcontext,
        "counters": device.record,
        "counters and pairing by a dispatch mode": lambda: device.record(pair=True),
        "torch.profiler": ShadowRecorder,
    }
    a, b = torch.ones(4, device="neuron"), torch.ones(4, device="neuron")
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, recorder in ways.items():
            started = time.perf_counter()
            with recorder():
                for _ in range(CALLS):
                    torch.add(a, b)
            times[name].append((time.perf_counter() - started) / CALLS)
    for name, found in times.items():
        print(f"{name:42} {statistics.median(found) * 1e6:8.2f} µs an op")


if __name__ == "__main__":
    main()
