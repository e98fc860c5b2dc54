"""Which calls of a graph do not lower on their own.

Lowering many calls at once costs little more than lowering one. So calls are tried in groups, and a group
that is refused is halved. Those that the lowering table does not call native come first and alone: among them
are most of the calls looked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from torchneuron_backend.tables import read_table

from . import isolate, lowering
from .graph import call_dtype, operator_name

Group = list[int]


def refused(calls: Sequence[Node], groups: Sequence[Group] | None = None) -> dict[int, str]:
    """The positions in ``calls`` (calls of ATen overloads) that do not lower, each with one line of reason.

    Works in a forked child that goes on until it dies; a new one takes over behind the group that killed it.
    ``groups`` are the positions to try together first.
    """
    lowering.preload()
    pending = [*reversed(groups if groups is not None else first_groups(calls))]
    found: dict[int, str] = {}
    while pending:
        limit = lowering.deadline_s(max(map(len, pending)))
        try:
            # For each group: one limit for all of them would blame the group that it ended in.
            for message in isolate.stream(_trial(calls, list(pending)), timeout_s=limit, each=True):
                _settle(pending, found, message.value)
        except (isolate.ChildDiedError, isolate.ChildTimeoutError, isolate.ChildFailedError) as error:
            _settle(pending, found, f"the compiler {error}")
    return found


def first_groups(calls: Sequence[Node]) -> list[Group]:
    """Each call that the lowering table does not call native, then all others together."""
    native = _native()
    trusted = [
        (operator_name(call.target), call_dtype(call)) in native  # type: ignore[arg-type]
        for call in calls
    ]
    together = [position for position, known in enumerate(trusted) if known]
    return [[position] for position, known in enumerate(trusted) if not known] + [together] * bool(together)


@functools.cache
def _native() -> frozenset[tuple[str, str]]:
    entries = read_table()["entries"]
    return frozenset((entry["op"], entry["dtype"]) for entry in entries if entry["status"] == "native")


def _trial(calls: Sequence[Node], pending: list[Group]) -> Callable[[Callable[[str, Any], None]], None]:
    """Tries the last of ``pending`` until there is none, and tells of each the reason for its refusal."""

    def work(emit: Callable[[str, Any], None]) -> None:
        while pending:
            reason = _lower([calls[position] for position in pending[-1]])
            emit("reason", reason)
            _settle(pending, {}, reason)

    return work


def _lower(calls: Sequence[Node]) -> str | None:
    try:
        lowering.lower_here(lowering.joint_call(calls))
    except Exception as error:  # noqa: BLE001 - any refusal is the answer asked for
        return lowering.summarise(error)
    return None


def _settle(pending: list[Group], found: dict[int, str], reason: str | None) -> None:
    """Take the last of ``pending`` for tried: done, found, or to be halved."""
    group = pending.pop()
    if reason is not None and len(group) == 1:
        found[group[0]] = reason
    elif reason is not None:
        middle = len(group) // 2
        pending += [group[middle:], group[:middle]]


def distinct(module: GraphModule, signature: Callable[[Node], str]) -> dict[str, list[Node]]:
    """The calls of ATen overloads in ``module``, those alike together."""
    alike: dict[str, list[Node]] = {}
    for node in _aten_calls(module.graph):
        alike.setdefault(signature(node), []).append(node)
    return alike


def _aten_calls(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
