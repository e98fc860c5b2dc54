"""Adds up recorded op calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from results.events import OpCall


def merge(calls: Iterable[OpCall]) -> tuple[OpCall, ...]:
    """Add up calls of the same (called, executed, dtype), sorted."""
    totals: dict[tuple[str, str, str], OpCall] = {}
    for call in calls:
        key = (call.called, call.executed, call.dtype)
        seen = totals.get(key)
        totals[key] = call if seen is None else _add(seen, call)
    return tuple(totals[key] for key in sorted(totals))


def _add(one: OpCall, two: OpCall) -> OpCall:
    return dataclasses.replace(
        one,
        device_calls=one.device_calls + two.device_calls,
        fallback_calls=one.fallback_calls + two.fallback_calls,
        device_ns=one.device_ns + two.device_ns,
        fallback_ns=one.fallback_ns + two.fallback_ns,
        bytes_moved=one.bytes_moved + two.bytes_moved,
    )
