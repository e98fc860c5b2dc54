"""Which family each of PyTorch's test files belongs to; the names are data, in ``families.toml``."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path

OTHER = "other"
_OTHER_TITLE = "Files that no family names"


class FamilyError(ValueError):
    """A family, a file, or the list of families is wrong; says which."""


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """Files that test one part of PyTorch.

    Attributes:
        files: exact names or patterns, relative to the folder of tests.
    """

    name: str
    title: str
    files: tuple[str, ...]


class Families:
    """All families; every file is in exactly one.

    Raises:
        FamilyError: two families name the same file or pattern.
    """

    def __init__(self, families: Sequence[Family]) -> None:
        self.families = {family.name: family for family in (*families, Family(OTHER, _OTHER_TITLE, ()))}
        self._exact: dict[str, str] = {}
        self._patterns: dict[str, str] = {}
        for family in families:
            for name in family.files:
                named = self._patterns if "*" in name else self._exact
                if name in named:
                    raise FamilyError(f"{name} is in two families, {named[name]} and {family.name}")
                named[name] = family.name

    def of(self, file: str) -> str:
        """The family of a file.

        Raises:
            FamilyError: patterns of two families match it.
        """
        if file in self._exact:
            return self._exact[file]
        found = sorted({family for pattern, family in self._patterns.items() if fnmatchcase(file, pattern)})
        if len(found) > 1:
            raise FamilyError(f"{file} is in two families, {' and '.join(found)}")
        return found[0] if found else OTHER

    def select(self, known: Sequence[str], families: Sequence[str], wanted: Sequence[str]) -> list[str]:
        """The files that a run takes, sorted.

        Args:
            known: the files of a tree.
            families: names of families; none is every family but ``other``.
            wanted: patterns of files; where there are any, families say nothing.

        Raises:
            FamilyError: a family is unknown, or a pattern matches no file.
        """
        unknown = [name for name in families if name not in self.families]
        if unknown:
            near = _near(unknown[0], self.families)
            raise FamilyError(f"no family {unknown[0]!r}{near}; there are {', '.join(self.families)}")
        if not wanted:
            chosen = set(families or self.families) - (set() if families else {OTHER})
            return sorted(file for file in known if self.of(file) in chosen)
        found: set[str] = set()
        for pattern in wanted:
            matches = {file for file in known if fnmatchcase(file, pattern)}
            if not matches:
                raise FamilyError(f"no test file {pattern!r}{_near(pattern, dict.fromkeys(known))}")
            found |= matches
        return sorted(found)


def load_families(path: Path | None = None) -> Families:
    """Read families from a file like ``families.toml``, by default that one.

    Raises:
        FamilyError: it is not such a file.
    """
    text = (path or Path(str(files("suites.upstream") / "families.toml"))).read_text()
    try:
        tables = tomllib.loads(text)
        return Families(
            [Family(name, str(table["title"]), tuple(table["files"])) for name, table in tables.items()]
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise FamilyError(f"{path or 'families.toml'} is no list of families: {error!r}") from error


def files_of(root: Path) -> list[str]:
    """The test files below a folder, ``test_*.py``, relative to it with ``/``, sorted."""
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("test_*.py")
        if not any(part.startswith(".") for part in path.relative_to(root).parts)
    )


def _near(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
