"""How eager mode runs: queue, order, errors, fallbacks, and that its numbers do not depend on any of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from suites.claims.checks import (
    host_only_operator,
    numbers,
    require,
    require_equal,
)
from suites.claims.claim import Scope, Source, Subject, Topic

topic = Topic("execution")

ASYNCHRONOUS = {"NEURON_LAUNCH_BLOCKING": "0"}
"""Asks for the launch that is documented; a device that does so anyway takes no notice."""

_COMPILE_RATIO = 5.0


@topic.claim(
    "An operator without support falls back to the CPU by default.", Source.DOCUMENTATION, recorded=False
)
def falls_back(subject: Subject) -> None:
    x = numbers(3, 4)
    with host_only_operator() as operator:
        require_equal(subject, operator(x.to(subject.name)), 2 * x, "the result of the fallback")


@topic.claim(
    "The first call of an operator with a new shape compiles; later calls are served from a cache.",
    Source.DOCUMENTATION,
    Source.USERS,
)
def first_call_compiles(subject: Subject) -> None:
    ratios = [_first_to_later(subject, size) for size in (37, 41, 43, 47, 53, 59)]  # noise cannot raise all
    seen = ", ".join(f"{ratio:.1f}" for ratio in ratios)
    require(min(ratios) >= _COMPILE_RATIO, f"first calls took {seen} times as long as later ones")


def _first_to_later(subject: Subject, size: int) -> float:
    x = numbers(size, size + 2).to(subject.name)
    torch.accelerator.synchronize()
    first, *later = [_seconds(lambda: torch.mm(x, x.t())) for _ in range(20)]
    return first / statistics.median(later)


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    torch.accelerator.synchronize()
    return time.perf_counter() - started


@topic.claim(
    "Launching is asynchronous by default: Python runs ahead of the device.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
    fresh={"NEURON_LAUNCH_BLOCKING": None},
)
def asynchronous_by_default(subject: Subject) -> None:
    _require_running_ahead(subject)


@topic.claim(
    "Where launching is asynchronous, Python runs ahead of the device.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
    fresh=ASYNCHRONOUS,
)
def python_runs_ahead(subject: Subject) -> None:
    _require_running_ahead(subject)


def _require_running_ahead(subject: Subject) -> None:
    x = torch.eye(512, device=subject.name)
    for _ in range(2):  # the first call may compile, and be waited for
        x.mm(x)
    torch.accelerator.synchronize()
    for _ in range(100):
        x = x.mm(x)
    ahead = not torch.accelerator.current_stream().query()
    require(ahead, "100 products of 512 x 512 numbers were done when the last call returned")
    require_equal(subject, x, torch.eye(512), "the product of 100 unit matrices")


@topic.claim(
    "The order of operators on a device is the order of the queue.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
    scope=Scope.ACCELERATOR,
)
def order_of_the_queue(subject: Subject) -> None:
    x = torch.zeros(64, dtype=torch.int32, device=subject.name)
    expected = torch.zeros(64, dtype=torch.int32)
    for step in range(200):
        for each in (x, expected):
            each.mul_(3).add_(step).remainder_(1009)  # comes out otherwise in any other order
    require_equal(subject, x, expected, "200 steps written into one tensor")


@topic.claim(
    "Reading a value waits for what makes it.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
    scope=Scope.ACCELERATOR,
)
def reading_synchronises(subject: Subject) -> None:
    x = torch.eye(256, device=subject.name)
    for _ in range(50):
        x = x @ x
    count = torch.zeros((), dtype=torch.int32, device=subject.name)
    for _ in range(100):
        count += 1
    read = (count.item(), float(x.sum()))
    require(read == (100, 256.0), f"read {read} instead of (100, 256.0)")


@topic.claim(
    "An error in an operator surfaces at the next synchronisation, not at the operator.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
    fresh=ASYNCHRONOUS,
)
def errors_surface_late(subject: Subject) -> None:
    x = torch.arange(8.0, device=subject.name)
    right, wrong = (torch.tensor(places, device=subject.name) for places in ([1, 2], [1, 99]))
    for _ in range(2):  # the first call may compile, and be waited for
        x[right]
    torch.accelerator.synchronize()
    try:
        x[wrong]
    except Exception as error:  # noqa: BLE001 - any error here refutes the statement
        require(False, f"the operator itself raised {type(error).__name__}: {error}")
    try:
        torch.accelerator.synchronize()
    except Exception:  # noqa: BLE001 - as documented; what it says is not
        return
    require(False, "an index out of range raised nothing, neither at the operator nor when waited for")


@topic.claim(
    "Fusing queued operators changes no number: with deterministic algorithms, which switch it off, "
    "results are the same to the bit.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
)
def fusing_changes_no_number(subject: Subject) -> None:
    fused = _chain(subject)
    for enable in (
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.set_deterministic_debug_mode("error"),
    ):
        enable()
        alone = _chain(subject)
        torch.use_deterministic_algorithms(False)
        require(
            torch.equal(fused, alone), f"numbers differ by up to {(fused - alone).abs().max().item():.3g}"
        )


@topic.claim(
    "Eager execution is deterministic: the same operators on the same numbers give the same bits.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
)
def same_numbers_each_time(subject: Subject) -> None:
    first = _chain(subject)
    for _ in range(4):
        again = _chain(subject)
        require(
            torch.equal(first, again), f"numbers differ by up to {(first - again).abs().max().item():.3g}"
        )


def _chain(subject: Subject) -> torch.Tensor:
    """A chain of operators that a device may fuse, read at the end."""
    x, weight = numbers(32, 64).to(subject.name), numbers(64, 64, seed=1).to(subject.name)
    for _ in range(4):
        y = torch.nn.functional.gelu(x @ weight / 8)
        x = torch.nn.functional.layer_norm(x + y * 0.5, (64,))
    return torch.softmax(x, -1).cpu()
