"""What op_db does not say of an operator and comparing it needs to know. No torch here."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from suites.device import Tolerance

UNINITIALISED = "uninitialised memory"
"""The reason in ``traits.toml`` why nothing can be said of the values of ``empty`` and its like."""


@dataclasses.dataclass(frozen=True, slots=True)
class Widened:
    """Wider bounds for one operator, by dtype, and why it needs them."""

    reason: str
    bounds: Mapping[str, Tolerance]


@dataclasses.dataclass(frozen=True, slots=True)
class Traits:
    """The tables of ``traits.toml``.

    Attributes:
        uncompared: operator → why its values cannot be compared (random, uninitialised).
        random_with: operator → argument that, if given and true, makes it random.
        factories: operators that are given the device where a sample names none.
        cpu_arguments: operator → positions among ``args`` that must stay on the CPU.
        without_reference: check, or form of its calls → operator → why nothing can be said.
        widened: operator → wider bounds.
    """

    uncompared: Mapping[str, str]
    random_with: Mapping[str, str]
    factories: frozenset[str]
    cpu_arguments: Mapping[str, tuple[int, ...]]
    without_reference: Mapping[str, Mapping[str, str]]
    widened: Mapping[str, Widened]

    def names(self) -> list[str]:
        """Every operator mentioned."""
        return [
            *self.uncompared,
            *self.random_with,
            *sorted(self.factories),
            *self.cpu_arguments,
            *(op for ops in self.without_reference.values() for op in ops),
            *self.widened,
        ]

    def why_uncompared(self, op: str, kwargs: Mapping[str, Any]) -> str:
        """Why the values of one call cannot be compared; ``""`` if they can."""
        argument = self.random_with.get(op)
        if argument is not None and kwargs.get(argument):
            return f"random with {argument}"
        return self.uncompared.get(op, "")

    def why_without_reference(self, check: str, op: str) -> str:
        """Why nothing can be said of what a check, or a form of it, asks; ``""`` if something can."""
        return self.without_reference.get(check, {}).get(op, "")

    def tolerance(self, op: str, dtype: str, of_device: Tolerance) -> Tolerance:
        """The wider of the device's bounds and the operator's own."""
        own = self.widened[op].bounds.get(dtype) if op in self.widened else None
        if own is None:
            return of_device
        return Tolerance(max(own.rtol, of_device.rtol), max(own.atol, of_device.atol))


@cache
def load_traits() -> Traits:
    """Read the traits that come with the package."""
    raw: dict[str, Any] = tomllib.loads(resources.files("suites.opinfo").joinpath("traits.toml").read_text())
    return Traits(
        uncompared=_by_operator(raw["uncompared"]),
        random_with=raw["random_with"],
        factories=frozenset(raw["factories"]["ops"]),
        cpu_arguments={op: tuple(places) for op, places in raw["cpu_arguments"].items()},
        without_reference={check: _by_operator(table) for check, table in raw["without_reference"].items()},
        widened={op: _widened(table) for op, table in raw["tolerances"].items()},
    )


def _by_operator(by_reason: Mapping[str, list[str]]) -> dict[str, str]:
    return {op: reason for reason, ops in by_reason.items() for op in ops}


def _widened(table: Mapping[str, Any]) -> Widened:
    bounds = {dtype: Tolerance(**values) for dtype, values in table.items() if dtype != "reason"}
    return Widened(table["reason"], bounds)
