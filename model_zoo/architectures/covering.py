"""The fewest types whose operators together are all that were seen: a greedy set cover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def covering_set(seen: Mapping[str, Iterable[str]]) -> list[str]:
    """Names in the order chosen: each adds the most that is still missing; ties go to the first name.

    Greedy is within a factor ln(n) of the smallest set; a name that later ones made needless is
    taken out again.

    Args:
        seen: name → the operator overloads it reached.
    """
    sets = {name: frozenset(operators) for name, operators in seen.items()}
    missing = set().union(*sets.values()) if sets else set()
    chosen: list[str] = []
    while missing:
        name = min(sets, key=lambda name: (-len(sets[name] & missing), name))
        chosen.append(name)
        missing -= sets[name]
    for name in list(chosen):
        others = set().union(*(sets[other] for other in chosen if other != name))
        if sets[name] <= others:
            chosen.remove(name)
    return chosen


def by_pair(records: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Pair → operators, of the pairs that got through forward and backward."""
    return {record["pair"]: record["operators"] for record in records if record["stage"] == "done"}
