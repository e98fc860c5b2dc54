"""Which operators to lower next, and what that frees.

A case is free once every operator that it lacks is lowered, so operators pay off together: the best pair need
not hold the best single one. To choose ``k`` operators that free most is NP-hard (it holds densest
k-subgraph), and no greedy choice is within a constant of the best. What is chosen here is the best of three
greedy choices, all from whole cases' missing sets; ``at_most`` bounds what any choice could give. Pure
functions: their input is ``v_blocked_sets``, their counts of what a choice frees are exact.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Any


class By(StrEnum):
    """What to free most of."""

    MODELS = "models"
    DOWNLOADS = "downloads"
    TESTS = "tests"


@dataclasses.dataclass(frozen=True, slots=True)
class Gain:
    """What is freed.

    Attributes:
        models: models that become free of fallbacks.
        downloads: of these models together.
        tests: other cases that do.
        unsupported: cases of both kinds that are refused or skipped today, and will not be.
    """

    models: int = 0
    downloads: int = 0
    tests: int = 0
    unsupported: int = 0

    def __add__(self, other: Gain) -> Gain:
        return Gain(
            self.models + other.models,
            self.downloads + other.downloads,
            self.tests + other.tests,
            self.unsupported + other.unsupported,
        )

    def __sub__(self, other: Gain) -> Gain:
        return Gain(
            self.models - other.models,
            self.downloads - other.downloads,
            self.tests - other.tests,
            self.unsupported - other.unsupported,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Blocked:
    """Cases that lack the same operators."""

    ops: frozenset[str]
    cases: Gain


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """Operators to lower together.

    Attributes:
        ops: sorted.
        gain: what they free on top of the steps before.
        total: what all steps so far free.
        operators: in all steps so far.
    """

    ops: tuple[str, ...]
    gain: Gain
    total: Gain
    operators: int


@dataclasses.dataclass(frozen=True, slots=True)
class Ranking:
    """What to lower, in order.

    Attributes:
        steps: the first, with the operators that were given, if any were.
        at_most: no choice of so many operators frees more, the given ones included; of what it is ranked by.
        blocked: what all cases come to that wait for operators only.
    """

    by: By
    steps: tuple[Step, ...]
    at_most: int
    blocked: Gain

    @property
    def ops(self) -> tuple[str, ...]:
        """All operators, in order."""
        return tuple(op for step in self.steps for op in step.ops)

    @property
    def total(self) -> Gain:
        """What all of them free."""
        return self.steps[-1].total if self.steps else Gain()


def unlocked(blocked: Iterable[Blocked], ops: Collection[str]) -> Gain:
    """Exactly what is freed by lowering these operators and no others."""
    chosen = frozenset(ops)
    return sum((row.cases for row in blocked if row.ops <= chosen), Gain())


def rank(blocked: Sequence[Blocked], limit: int, by: By = By.MODELS, given: Collection[str] = ()) -> Ranking:
    """Choose at most so many operators on top of the given ones.

    The answer does not depend on the order of the rows, frees no less for a larger limit, no less than the
    missing set of any one case within the limit, and no less than choosing one operator at a time does.
    """
    start = frozenset(given)
    sets = _Sets(blocked, by)
    rest = sets.without(sets.mask(start))
    search = _Search(rest, limit)
    best: list[int] = []
    for budget in range(1, limit + 1):
        found = [best, *(choose(search, budget) for choose in _CHOICES)]
        found.sort(key=lambda parts: _preference(rest, parts))
        best = found[0]
    parts = [start] if start else []
    parts += [frozenset(sets.names(part)) for part in best]
    freed = unlocked(blocked, start)
    return Ranking(
        by=by,
        steps=_steps(blocked, parts),
        at_most=int(getattr(freed, by)) + _bound(rest, limit),
        blocked=sum((row.cases for row in blocked), Gain()),
    )


def _steps(blocked: Sequence[Blocked], parts: Sequence[frozenset[str]]) -> tuple[Step, ...]:
    steps: list[Step] = []
    chosen: frozenset[str] = frozenset()
    before = Gain()
    for part in parts:
        chosen |= part
        total = unlocked(blocked, chosen)
        steps.append(Step(tuple(sorted(part)), total - before, total, len(chosen)))
        before = total
    return tuple(steps)


def _preference(rest: _Rest, parts: Sequence[int]) -> tuple[int, ...]:
    """What frees most comes first, then fewest operators, then the finest steps."""
    return (*_descending(_freed(rest, parts)), sum(map(int.bit_count, parts)), -len(parts))


_Weight = tuple[int, ...]
"""What is ranked by, first; then what decides between equals."""

_NOTHING: _Weight = (0, 0, 0, 0)

_Rest = Mapping[int, _Weight]
"""Missing sets as bits, with the weight of the cases that lack exactly these."""


class _Sets:
    """Operators as bits, the rarest lowest, ties by name; and the missing sets as such numbers."""

    def __init__(self, blocked: Sequence[Blocked], by: By) -> None:
        rows: dict[str, int] = {}
        for row in blocked:
            for op in row.ops:
                rows[op] = rows.get(op, 0) + 1
        self._names = sorted(rows, key=lambda op: (rows[op], op))
        self._bits = {op: 1 << place for place, op in enumerate(self._names)}
        order = (by, *(other for other in (*By, "unsupported") if other != by))
        self._weights: dict[int, _Weight] = {}
        for row in blocked:
            weight = tuple(int(getattr(row.cases, name)) for name in order)
            mask = self.mask(row.ops)
            self._weights[mask] = _add(self._weights.get(mask, _NOTHING), weight)

    def mask(self, ops: Iterable[str]) -> int:
        """The bits of those operators that a case lacks."""
        return sum(self._bits.get(op, 0) for op in ops)

    def names(self, mask: int) -> list[str]:
        """The operators of some bits."""
        return [self._names[bit.bit_length() - 1] for bit in _bits(mask)]

    def without(self, have: int) -> dict[int, _Weight]:
        """What the cases lack once some operators are there."""
        return _lower(self._weights, have)


def _lower(rest: _Rest, have: int) -> dict[int, _Weight]:
    left: dict[int, _Weight] = {}
    for mask in sorted(rest):
        if lacking := mask & ~have:
            left[lacking] = _add(left.get(lacking, _NOTHING), rest[mask])
    return left


def _add(one: _Weight, two: _Weight) -> _Weight:
    return tuple(a + b for a, b in zip(one, two, strict=True))


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low
        mask ^= low


def _gains(rest: _Rest, candidates: Iterable[int]) -> dict[int, _Weight]:
    """What each candidate frees: the weight of all sets within it, found by their rarest operator."""
    by_rarest: dict[int, list[int]] = {}
    for mask in rest:
        by_rarest.setdefault(mask & -mask, []).append(mask)
    gains: dict[int, _Weight] = {}
    for candidate in candidates:
        total = _NOTHING
        for bit in _bits(candidate):
            for mask in by_rarest.get(bit, ()):
                if not mask & ~candidate:
                    total = _add(total, rest[mask])
        if total[0]:
            gains[candidate] = total
    return gains


class _Search:
    """The greedy choices of all budgets; what they share is computed once."""

    def __init__(self, rest: _Rest, limit: int) -> None:
        self._rest = rest
        self._limit = limit
        self._known: dict[int, dict[int, _Weight]] = {}

    def gains(self, have: int) -> Mapping[int, _Weight]:
        """The missing sets within the limit once some operators are there, with what each frees."""
        if have not in self._known:
            rest = _lower(self._rest, have)
            self._known[have] = _gains(rest, [mask for mask in rest if mask.bit_count() <= self._limit])
        return self._known[have]

    def by_sets(self, budget: int, value: Callable[[_Weight, int], tuple[Fraction | int, ...]]) -> list[int]:
        """Add the missing set of the most value, again and again, while there is room for one."""
        parts: list[int] = []
        have = 0
        while fitting := {
            mask: gain for mask, gain in self.gains(have).items() if mask.bit_count() <= budget
        }:
            best = min(fitting, key=lambda mask: (_descending(value(fitting[mask], mask.bit_count())), mask))
            parts.append(best)
            budget -= best.bit_count()
            have |= best
        return parts

    @functools.cached_property
    def one_by_one(self) -> list[int]:
        """One operator at a time, put together where the first ones free nothing yet."""
        parts: list[int] = []
        rest, pending = self._rest, 0
        for _ in range(self._limit):
            waiting: dict[int, _Weight] = {}
            for mask, weight in rest.items():
                for bit in _bits(mask):
                    waiting[bit] = _add(waiting.get(bit, _NOTHING), weight)
            if not waiting:
                break
            best = _most_wanted(rest, waiting)
            pending |= best
            if rest.get(best, _NOTHING)[0]:
                parts.append(pending)
                pending = 0
            rest = _lower(rest, best)
        return parts


def _descending(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(-part for part in value)


def _per_operator(search: _Search, budget: int) -> list[int]:
    return search.by_sets(budget, lambda gain, ops: (Fraction(gain[0], ops), -ops, *gain))


def _whole(search: _Search, budget: int) -> list[int]:
    return search.by_sets(budget, lambda gain, ops: (gain[0], -ops, *gain[1:]))


def _one_by_one(search: _Search, budget: int) -> list[int]:
    ends = itertools.accumulate(map(int.bit_count, search.one_by_one))
    return [part for part, end in zip(search.one_by_one, ends, strict=True) if end <= budget]


def _most_wanted(rest: _Rest, waiting: Mapping[int, _Weight]) -> int:
    """The operator that frees most at once, or else the one that most still wait for."""
    return min(
        waiting, key=lambda bit: (_descending(rest.get(bit, _NOTHING)), _descending(waiting[bit]), bit)
    )


_CHOICES: tuple[Callable[[_Search, int], list[int]], ...] = (_per_operator, _whole, _one_by_one)


def _freed(rest: _Rest, parts: Iterable[int]) -> _Weight:
    have = 0
    for part in parts:
        have |= part
    total = _NOTHING
    for mask, weight in rest.items():
        if not mask & ~have:
            total = _add(total, weight)
    return total


def _bound(rest: _Rest, limit: int) -> int:
    """No choice of so many operators frees more.

    Each case within reach gives each of its operators an equal share of its weight: a choice frees no more
    than the shares of its operators, and no more than all cases within reach.
    """
    shares: dict[int, Fraction] = {}
    reach = 0
    for mask, weight in rest.items():
        size = mask.bit_count()
        if size <= limit:
            reach += weight[0]
            for bit in _bits(mask):
                shares[bit] = shares.get(bit, Fraction()) + Fraction(weight[0], size)
    largest = sorted(shares.values(), reverse=True)[:limit]
    return min(reach, int(sum(largest)))
