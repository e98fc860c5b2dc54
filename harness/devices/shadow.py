"""Recording op calls on a device that cannot tell, from the shadow they leave in the profiler.

A CPU fallback copies its arguments with ``aten::_to_cpu``, directly below the operator that fell
back. An operator with no such mark anywhere below it ran on the device; one that merely contains
a marked operator (a composite) is taken apart. Names come without overloads and dtypes, because
the profiler keeps none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.devices.recording import CallRecorder
from results.calls import merge
from results.events import OpCall

_FALLBACK_MARK = "aten::_to_cpu"


class ShadowRecorder(CallRecorder):
    """Profiles its body and sorts the operators it saw.

    On the CPU itself every operator is a device call.
    """

    def start(self) -> None:
        """Start the profiler."""
        from torch.profiler import ProfilerActivity, profile

        self._profile = profile(activities=[ProfilerActivity.CPU], record_shapes=False)
        self._profile.__enter__()

    def stop(self, *, wait: bool) -> tuple[OpCall, ...]:
        """Stop the profiler and read it; what was launched has been seen already."""
        self._profile.__exit__(None, None, None)
        return self._read()

    def _read(self) -> tuple[OpCall, ...]:
        found: list[OpCall] = []
        for event in self._profile.events() or ():
            if event.name.startswith("aten::") and not _inside_operator(event):
                found.extend(_sort(event))
        return merge(found)


def _sort(event: Any) -> Iterator[OpCall]:
    """Yield one call for an operator, or its parts if a fallback hides below a composite."""
    nanoseconds = int(event.cpu_time_total * 1000)
    if any(child.name == _FALLBACK_MARK for child in event.cpu_children):
        yield OpCall(
            called=event.name, executed=event.name, dtype="", fallback_calls=1, fallback_ns=nanoseconds
        )
    elif _has_below(event, _FALLBACK_MARK):
        for child in event.cpu_children:
            yield from _sort(child)
    else:
        yield OpCall(called=event.name, executed=event.name, dtype="", device_calls=1, device_ns=nanoseconds)


def _inside_operator(event: Any) -> bool:
    parent = event.cpu_parent
    while parent is not None:
        if parent.name.startswith("aten::"):
            return True
        parent = parent.cpu_parent
    return False


def _has_below(event: Any, name: str) -> bool:
    return any(child.name == name or _has_below(child, name) for child in event.cpu_children)
