"""Which operators to run: a TOML file of names, one that comes with the package, or all. No torch here."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

ALL = "all"
FIRST = "first"
DEFAULT_DTYPES = ("float32", "int64", "bfloat16")


class SelectionError(ValueError):
    """A selection that cannot be used; says which name is wrong and what was probably meant."""


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The operators to run.

    Attributes:
        name: where it comes from, for messages: ``first``, ``all`` or a path.
        ops: full names as op_db has them, e.g. ``div.floor_rounding``; ``None`` stands for all.
    """

    name: str
    ops: tuple[str, ...] | None

    def resolve(self, known: Collection[str]) -> tuple[str, ...]:
        """The selected names, checked against the names there are.

        Raises:
            SelectionError: a name is not among them.
        """
        if self.ops is None:
            return tuple(sorted(known))
        check_names(self.ops, known, self.name)
        return self.ops


def load_selection(name: str = FIRST) -> Selection:
    """Read a selection: ``first`` (the one in the package), ``all``, or the path of a TOML file.

    The file has a table ``ops`` of groups, each a list of full names. The groups are for its
    reader; the names must be unique over all of them.

    Raises:
        SelectionError: the file is missing or not of that form, or a name stands in it twice.
    """
    if name == ALL:
        return Selection(ALL, None)
    text = _read(name)
    try:
        groups = tomllib.loads(text)["ops"]
        ops = [op for group in groups.values() for op in group]
        if not ops or not all(isinstance(op, str) for op in ops):
            raise TypeError
    except (tomllib.TOMLDecodeError, KeyError, AttributeError, TypeError) as error:
        raise SelectionError(f"{name}: expected a table [ops] of lists of operator names: {error}") from error
    twice = sorted({op for op in ops if ops.count(op) > 1})
    if twice:
        raise SelectionError(f"{name}: named twice: {', '.join(twice)}")
    return Selection(name, tuple(ops))


def _read(name: str) -> str:
    if name == FIRST:
        return resources.files("suites.opinfo").joinpath("first.toml").read_text()
    try:
        return Path(name).read_text()
    except OSError as error:
        message = f"no selection {name!r}: neither {FIRST!r}, {ALL!r} nor a file that can be read ({error})"
        raise SelectionError(message) from error


def check_names(names: Sequence[str], known: Collection[str], where: str) -> None:
    """Refuse names that are not known, each with the nearest one that is.

    Raises:
        SelectionError: naming every unknown one.
    """
    unknown = [name for name in names if name not in known]
    if not unknown:
        return
    hints = []
    for name in unknown:
        near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
        hints.append(f"{name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
    raise SelectionError(f"{where}: the installed torch has no operator {', '.join(hints)}")


@dataclasses.dataclass(frozen=True, slots=True)
class Traits:
    """What op_db does not say of an operator and a comparison needs to know.

    Attributes:
        uncompared: operator → why its values cannot be compared (random, uninitialised).
        random_with: operator → argument that, if given and true, makes it random.
        factories: operators that are given the device where a sample names none.
        cpu_arguments: operator → positions among ``args`` that must stay on the CPU.
    """

    uncompared: Mapping[str, str]
    random_with: Mapping[str, str]
    factories: frozenset[str]
    cpu_arguments: Mapping[str, tuple[int, ...]]

    def names(self) -> list[str]:
        """Every operator mentioned."""
        return [*self.uncompared, *self.random_with, *sorted(self.factories), *self.cpu_arguments]

    def why_uncompared(self, op: str, kwargs: Mapping[str, Any]) -> str:
        """Why the values of one call cannot be compared; ``""`` if they can."""
        argument = self.random_with.get(op)
        if argument is not None and kwargs.get(argument):
            return f"random with {argument}"
        return self.uncompared.get(op, "")


@cache
def load_traits() -> Traits:
    """Read the traits that come with the package."""
    raw: dict[str, Any] = tomllib.loads(resources.files("suites.opinfo").joinpath("traits.toml").read_text())
    return Traits(
        uncompared={op: reason for reason, ops in raw["uncompared"].items() for op in ops},
        random_with=raw["random_with"],
        factories=frozenset(raw["factories"]["ops"]),
        cpu_arguments={op: tuple(places) for op, places in raw["cpu_arguments"].items()},
    )
