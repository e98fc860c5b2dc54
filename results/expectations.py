"""Expectation files: what is declared of a case before it runs, by exact id or explicit glob.

A file is TOML, a list of entries::

    [[expect]]
    id = "opinfo::cumsum::forward[int64]"     # or: glob = "opinfo::fft_*::*"
    expectation = "fail"                      # fail, skip or flaky
    category = "no_native_lowering"
    reason = "cumsum over integers is not lowered"
    added = 2026-11-03
    # and if wanted: link, owner, review_by, conditions = { device = "neuron", torch = "2.13.*" }

Nothing matches by substring, and an entry without a reason is refused.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import fnmatch
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from results.plan import Case, Declared
from results.vocabulary import Category, Expectation

_TABLE = "expect"
_TEXTS = ("id", "glob", "reason", "link", "owner")
_DATES = ("added", "review_by")
_REQUIRED = ("expectation", "category", "reason", "added")
_KNOWN = frozenset({*_TEXTS, *_DATES, *_REQUIRED, "conditions"})
_CONDITIONS = ("device", "torch")


class ExpectationError(ValueError):
    """An expectation file that cannot be used; names the file and the entry."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a file.

    Attributes:
        pattern: a case id, or a glob over whole ids if ``is_glob``; in a glob only ``*`` and ``?``
            are special, since ids hold brackets.
        device, torch: globs that the run's device and torch version must match, ``""`` for any.
        source: file and position, for messages.
    """

    pattern: str
    is_glob: bool
    expectation: Expectation
    category: Category
    reason: str
    added: datetime.date
    link: str = ""
    owner: str = ""
    review_by: datetime.date | None = None
    device: str = ""
    torch: str = ""
    source: str = ""

    def applies(self, device: str, torch: str) -> bool:
        """Whether its conditions hold for a run."""
        wanted = ((self.device, device), (self.torch, torch))
        return all(not glob or fnmatch.fnmatchcase(value, glob) for glob, value in wanted)

    @property
    def declared(self) -> Declared:
        """What a matching case carries in the plan."""
        return Declared(
            expectation=self.expectation,
            category=self.category,
            reason=self.reason,
            link=self.link,
            owner=self.owner,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Unmatched:
    """An entry that matches no case, with the id that it may have meant (``""`` if none is near)."""

    entry: Entry
    nearest: str

    def __str__(self) -> str:
        hint = f"; did it mean {self.nearest!r}?" if self.nearest else ""
        return f"{self.entry.source}: {self.entry.pattern!r} matches no case{hint}"


@dataclasses.dataclass(frozen=True, slots=True)
class Declaration:
    """The cases with what was declared of them, and the entries that matched nothing."""

    cases: tuple[Case, ...]
    unmatched: tuple[Unmatched, ...]


def load_expectations(paths: Iterable[Path]) -> tuple[Entry, ...]:
    """Read expectation files.

    Raises:
        ExpectationError: a file cannot be read, or an entry is not valid or stands twice.
    """
    entries: list[Entry] = []
    for path in paths:
        entries += _read(path)
    first: dict[tuple[Any, ...], Entry] = {}
    for entry in entries:
        key = (entry.is_glob, entry.pattern, entry.device, entry.torch)
        if key in first:
            raise ExpectationError(
                f"{entry.source}: {entry.pattern!r} stands already at {first[key].source}; keep one of them"
            )
        first[key] = entry
    return tuple(entries)


def declare(cases: Sequence[Case], expectations: Sequence[Entry], device: str, torch: str) -> Declaration:
    """Give each case what was declared of it; an exact id goes before a glob.

    Args:
        device, torch: type and version that the entries' conditions are about.

    Raises:
        ExpectationError: two entries of one kind match a case.
    """
    active = [entry for entry in expectations if entry.applies(device, torch)]
    exact: dict[str, Entry] = {}
    for entry in active:
        if not entry.is_glob:
            _only(exact.get(entry.pattern), entry, entry.pattern)
            exact[entry.pattern] = entry
    globs = [(_matcher(entry.pattern), entry) for entry in active if entry.is_glob]
    used: set[int] = set()
    declared = []
    for case in cases:
        matching: Entry | None = None
        for pattern, entry in globs:
            if pattern.fullmatch(case.id):
                used.add(id(entry))  # a glob that only exact ids overrule is not dead
                if case.id not in exact:
                    _only(matching, entry, case.id)
                    matching = entry
        entry_or_none = exact.get(case.id, matching)
        if entry_or_none is not None:
            used.add(id(entry_or_none))
            case = dataclasses.replace(case, declared=entry_or_none.declared)
        declared.append(case)
    ids = [case.id for case in cases]
    unmatched = tuple(Unmatched(e, _nearest(e.pattern, ids)) for e in active if id(e) not in used)
    return Declaration(tuple(declared), unmatched)


def _only(first: Entry | None, second: Entry, case: str) -> None:
    if first is not None:
        raise ExpectationError(
            f"{case!r} is matched by {first.pattern!r} ({first.source}) and {second.pattern!r} "
            f"({second.source}); make one narrower, or name the case by its id"
        )


def _matcher(glob: str) -> re.Pattern[str]:
    parts = (".*" if char == "*" else "." if char == "?" else re.escape(char) for char in glob)
    return re.compile("".join(parts), re.DOTALL)


def _nearest(pattern: str, ids: Sequence[str]) -> str:
    return next(iter(difflib.get_close_matches(pattern, ids, n=1)), "")


def _read(path: Path) -> list[Entry]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ExpectationError(f"{path} cannot be read as TOML: {error}") from error
    unknown = sorted(set(content) - {_TABLE})
    if unknown:
        raise ExpectationError(f"{path}: unknown table {unknown[0]!r}; entries are [[{_TABLE}]]")
    items = content.get(_TABLE, [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ExpectationError(f"{path}: {_TABLE!r} is not a list; entries begin with [[{_TABLE}]]")
    return [_entry(item, f"{path}, entry {number}") for number, item in enumerate(items, 1)]


def _entry(item: Mapping[str, Any], source: str) -> Entry:
    _check(item, source)
    conditions = item.get("conditions", {})
    return Entry(
        pattern=item.get("id") or item["glob"],
        is_glob="glob" in item,
        expectation=_member(Expectation, item, "expectation", source),
        category=_member(Category, item, "category", source),
        reason=item["reason"],
        added=item["added"],
        link=item.get("link", ""),
        owner=item.get("owner", ""),
        review_by=item.get("review_by"),
        device=conditions.get("device", ""),
        torch=conditions.get("torch", ""),
        source=source,
    )


def _check(item: Mapping[str, Any], source: str) -> None:
    """Refuse an entry that is not of the form above, in one sentence."""
    unknown = sorted(set(item) - _KNOWN)
    if unknown:
        near = _nearest(unknown[0], sorted(_KNOWN))
        raise ExpectationError(
            f"{source}: unknown key {unknown[0]!r}" + (f"; did it mean {near!r}?" if near else "")
        )
    if ("id" in item) == ("glob" in item):
        raise ExpectationError(f"{source}: it needs either an id or a glob")
    for key in _REQUIRED:
        if key not in item:
            raise ExpectationError(f"{source}: {key} is missing")
    for key in _TEXTS:
        if key in item and (not isinstance(item[key], str) or not item[key].strip()):
            raise ExpectationError(f"{source}: {key} must be text and not empty")
    for key in _DATES:
        # A TOML datetime is a date too, but its time of day means nothing here.
        if key in item and type(item[key]) is not datetime.date:
            raise ExpectationError(f"{source}: {key} must be a date such as 2026-11-03, without quotes")
    conditions = item.get("conditions", {})
    if not isinstance(conditions, dict) or any(
        key not in _CONDITIONS or not isinstance(value, str) for key, value in conditions.items()
    ):
        raise ExpectationError(f"{source}: conditions may hold {' and '.join(_CONDITIONS)}, as text")


def _member(enum: Any, item: Mapping[str, Any], key: str, source: str) -> Any:
    try:
        return enum(item[key])
    except ValueError:
        known = ", ".join(enum)
        raise ExpectationError(f"{source}: {key} {item[key]!r} is none of {known}") from None
