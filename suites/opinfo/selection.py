"""Which operators to run: a TOML file of names, one that comes with the package, or all. No torch here."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Collection, Sequence
from importlib import resources
from pathlib import Path

ALL = "all"
FIRST = "first"
DEFAULT_DTYPES = ("float32", "int64", "bfloat16")
DEFAULT_CHECKS = ("forward",)
DEFAULT_DATABASES = ("op_db",)


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


def check_names(names: Sequence[str], known: Collection[str], where: str, what: str = "operator") -> None:
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
    owner = "the suite" if what == "check" else "the installed torch"
    raise SelectionError(f"{where}: {owner} has no {what} {', '.join(hints)}")
