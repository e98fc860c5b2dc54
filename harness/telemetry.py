"""Putting the called op beside each executed kernel's counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from results.calls import merge
from results.events import OpCall

_COUNTS = ("device_calls", "fallback_calls", "device_ns", "fallback_ns", "bytes_moved")


def attribute(measured: Sequence[OpCall], paired: Sequence[OpCall]) -> tuple[OpCall, ...]:
    """Split measured kernel counts over the ops that called them, in the shares a paired run showed.

    Sums are kept exactly: each count is apportioned by largest remainder. A kernel the paired run
    did not see keeps its own name as the called op.
    """
    callers: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for call in paired:
        callers[call.executed, call.dtype].append((call.called, call.device_calls + call.fallback_calls))
    result: list[OpCall] = []
    for call in measured:
        shares = sorted(callers.get((call.executed, call.dtype), [(call.executed, 1)]))
        weights = [weight for _, weight in shares]
        parts = {name: apportion(getattr(call, name), weights) for name in _COUNTS}
        for index, (called, _) in enumerate(shares):
            result.append(
                OpCall(
                    called=called,
                    executed=call.executed,
                    dtype=call.dtype,
                    **{name: parts[name][index] for name in _COUNTS},
                )
            )
    return merge(result)


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Split ``total`` in proportion to ``weights``; the parts are whole and add up to it.

    Largest-remainder method; ties go to the earlier part.
    """
    whole = sum(weights)
    if whole == 0:
        return [total] + [0] * (len(weights) - 1)
    parts = [total * weight // whole for weight in weights]
    remainders = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for index in remainders[: total - sum(parts)]:
        parts[index] += 1
    return parts
