"""Streams and events: one hardware queue behind all of them."""

from __future__ import annotations

import time

import torch

from suites.claims.checks import require, require_equal
from suites.claims.claim import Scope, Source, Subject, Topic
from suites.claims.topics.execution import ASYNCHRONOUS

topic = Topic("streams")

_LEAST_SHARE = 0.7
_ROUNDS = 7


@topic.claim(
    "Streams keep order: a stream's work runs in turn, and behind that of a stream it waits for.",
    Source.LAUNCH_POST,
    scope=Scope.ACCELERATOR,
)
def order_holds(subject: Subject) -> None:
    side, main = torch.Stream(device=subject.name), torch.accelerator.current_stream()
    x, expected = (torch.zeros(64, dtype=torch.int32, device=d) for d in (subject.name, "cpu"))
    side.wait_stream(main)
    for step in range(20):
        with side:
            x.mul_(3).add_(step)
        main.wait_stream(side)
        x.remainder_(1009)
        side.wait_stream(main)
        expected.mul_(3).add_(step).remainder_(1009)
    require_equal(subject, x, expected, "20 steps on two streams that wait for each other")


@topic.claim(
    "Events keep their meaning: reached when what came before is done, and waited for across streams.",
    Source.LAUNCH_POST,
    scope=Scope.ACCELERATOR,
)
def events_hold(subject: Subject) -> None:
    side = torch.Stream(device=subject.name)
    start, end = (torch.Event(device=subject.name, enable_timing=True) for _ in range(2))
    x = torch.eye(256, device=subject.name)
    torch.accelerator.synchronize()
    start.record()
    for _ in range(20):
        x = x @ x
    x = x * 2
    end.record()
    side.wait_event(end)
    with side:
        read = x.sum()
    side.synchronize()
    require(float(read) == 512.0, f"behind the event stood {float(read)}, not 512.0")
    require(start.query() and end.query(), "an event was not reached although work behind it was done")
    passed = start.elapsed_time(end)
    require(passed > 0, f"20 products of matrices took {passed} ms between two events")


@topic.claim(
    "The stream with the higher priority comes first where both have work.",
    Source.LAUNCH_POST,
    fresh=ASYNCHRONOUS,
)
def priority_decides(subject: Subject) -> None:
    common, urgent = (torch.Stream(device=subject.name, priority=value) for value in (0, -1))
    done = {stream: torch.Event(device=subject.name, enable_timing=True) for stream in (common, urgent)}
    start = torch.Event(device=subject.name, enable_timing=True)
    x = torch.eye(512, device=subject.name)
    for _ in range(2):  # the first call may compile, and be waited for
        x.mm(x)
    torch.accelerator.synchronize()
    start.record(common)
    for stream, products in ((common, 200), (urgent, 1)):
        with stream:
            for _ in range(products):
                x.mm(x)
            done[stream].record(stream)
    torch.accelerator.synchronize()
    late, early = start.elapsed_time(done[common]), start.elapsed_time(done[urgent])
    require(
        early < late, f"1 urgent product was done after {early:.1f} ms, 200 common ones after {late:.1f} ms"
    )


@topic.claim(
    "Streams other than the default one share one hardware queue: two of them are no faster than one.",
    Source.LAUNCH_POST,
    fresh=ASYNCHRONOUS,
)
def one_hardware_queue(subject: Subject) -> None:
    torch.set_num_threads(1)  # a simulated engine must not be faster alone for the threads it then has
    one, two = torch.Stream(device=subject.name), torch.Stream(device=subject.name)
    shares = sorted(_share(subject, one, two) for _ in range(_ROUNDS))
    # A second engine shows in every round, another process on the machine in some.
    seen = ", ".join(f"{share:.2f}" for share in shares)
    require(shares[-2] >= _LEAST_SHARE, f"two streams took {seen} of the time of one for the same work")


def _share(subject: Subject, one: torch.Stream, two: torch.Stream) -> float:
    """How long two streams take for the same work, in parts of the time of one."""
    alone = _seconds(subject, (one, one))
    return _seconds(subject, (one, two)) / alone


def _seconds(subject: Subject, streams: tuple[torch.Stream, torch.Stream]) -> float:
    x = torch.eye(384, device=subject.name)
    x.mm(x)
    torch.accelerator.synchronize()
    started = time.perf_counter()
    for _ in range(8):
        for stream in streams:
            with stream:
                x.mm(x)
    torch.accelerator.synchronize()
    return time.perf_counter() - started
