"""What one operator costs on the simulated device: native, by the fallback, and on the CPU itself.

    python benchmarks/op_cost.py [--numel 4] [--seconds 0.2]

Prints nanoseconds per call, median of seven rounds, one thread. The overhead of the device is the
difference to the CPU's column; `view` allocates and computes nothing.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

import torchneuron_backend

ROUNDS = 7


def nanoseconds_per_call(function: Callable[[], object], seconds: float) -> float:
    """Median over the rounds of the mean time of one call."""
    for _ in range(100):
        function()
    start = time.perf_counter_ns()
    for _ in range(100):
        function()
    calls = max(100, int(seconds / ROUNDS * 1e9 / ((time.perf_counter_ns() - start) / 100)))
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(calls):
            function()
        rounds.append((time.perf_counter_ns() - start) / calls)
    return statistics.median(rounds)


def cases(device: str, numel: int) -> dict[str, Callable[[], object]]:
    """The measured calls on ``device``: a label and the call."""
    float32, complex128 = (
        torch.ones(numel, device=device, dtype=d) for d in (torch.float32, torch.complex128)
    )
    matrix = torch.ones(16, 16, device=device)
    many = [torch.ones(numel, device=device) for _ in range(100)]
    return {
        "add, float32": lambda: torch.add(float32, float32),
        "add, complex128": lambda: torch.add(complex128, complex128),
        "mul_ by a number, float32": lambda: float32.mul_(1.0),
        "mm 16x16, float32": lambda: torch.mm(matrix, matrix),
        "_foreach_add_ of 100": lambda: torch._foreach_add_(many, 1.0),
        "view": lambda: float32.view(-1),
    }


def routes_taken(function: Callable[[], object]) -> set[str]:
    torchneuron_backend.reset_op_counters()
    function()
    return {row["route"] for row in torchneuron_backend.op_counters() if row["kind"] == "compute"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numel", type=int, default=4, help="elements per tensor")
    parser.add_argument("--seconds", type=float, default=0.2, help="time spent on each figure")
    options = parser.parse_args()
    torch.set_num_threads(1)
    host, device = cases("cpu", options.numel), cases("neuron", options.numel)
    print(f"{'ns per call':28}{'cpu':>10}{'neuron':>10}{'overhead':>10}  route")
    with torch.no_grad():
        for label, function in device.items():
            taken = routes_taken(function)
            cpu = nanoseconds_per_call(host[label], options.seconds)
            neuron = nanoseconds_per_call(function, options.seconds)
            route = ", ".join(sorted(taken)) or "none"
            print(f"{label:28}{cpu:10.0f}{neuron:10.0f}{neuron - cpu:10.0f}  {route}")


if __name__ == "__main__":
    main()
