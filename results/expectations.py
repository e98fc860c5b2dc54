"""Expectation files: what is declared of a case before it runs, by exact id or explicit glob.

A file is TOML, a list of entries::

    [[expect]]
    id = "opinfo::op_db::cumsum::forward[int64]"     # or: glob = "opinfo::op_db::fft_*::*"
    expectation = "fail"                             # pass, fail, skip or flaky
    category = "no_native_lowering"
    reason = "cumsum over integers is not lowered"
    added = 2026-11-03

and if wanted: ``outcome`` and ``stage``, which narrow what is expected, ``signature`` of the failure,
``link``, ``owner``, ``review_by`` and ``conditions = { device = "neuron", dtype = "int*", torch = "2.*" }``.
Nothing matches by substring, and an entry without a reason is refused. ``docs/expectations.md`` has examples.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import fnmatch
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from results.expectation_files import Block, ExpectationError, blocks, read_text
from results.globs import GlobIndex
from results.nearest import Nearest
from results.plan import Case, Declared
from results.vocabulary import DELIBERATE, Category, Expectation, Outcome, Stage

__all__ = [
    "Declaration",
    "Entry",
    "ExpectationError",
    "Finding",
    "declare",
    "dtype_in",
    "dtype_of",
    "load_expectations",
]

_TEXTS = ("id", "glob", "reason", "link", "owner", "signature")
_DATES = ("added", "review_by")
_REQUIRED = ("expectation", "category", "reason", "added")
_KNOWN = frozenset({*_TEXTS, *_DATES, *_REQUIRED, "outcome", "stage", "conditions"})
_CONDITIONS = ("device", "dtype", "torch")
_DTYPE = re.compile(
    r"[_\[](bool|u?int(?:1|2|4|8|16|32|64)|bfloat16|float(?:8_e\w+|16|32|64)|complex(?:32|64|128)|q?u?int32)\]?$"
)
_MEMBERS: Mapping[str, Mapping[str, Any]] = {
    "expectation": {member.value: member for member in Expectation},
    "category": {member.value: member for member in DELIBERATE},
    "outcome": {member.value: member for member in Outcome},
    "stage": {member.value: member for member in Stage},
}
_NAMED = 20
"""Entries that match nothing for which the nearest id is searched."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a file.

    Attributes:
        pattern: a case id, or a glob over whole ids if ``is_glob``; in a glob only ``*`` and ``?``
            are special, since ids hold brackets.
        outcome, stage: what is expected to come out and where, ``""`` for any.
        signature: of the failure that was accepted, ``""`` if none was noted.
        device, dtype, torch: globs that the run's device, the case's dtype and the run's torch version
            must match, ``""`` for any.
        path, line: where it stands.
    """

    pattern: str
    is_glob: bool
    expectation: Expectation
    category: Category
    reason: str
    added: datetime.date
    outcome: str = ""
    stage: str = ""
    signature: str = ""
    link: str = ""
    owner: str = ""
    review_by: datetime.date | None = None
    device: str = ""
    dtype: str = ""
    torch: str = ""
    path: Path = Path()
    line: int = 0

    @property
    def source(self) -> str:
        """``file:line``."""
        return f"{self.path}:{self.line}"

    def applies(self, device: str, torch: str) -> bool:
        """Whether its conditions hold for a run."""
        return _holds(self.device, device) and _holds(self.torch, torch)

    def matches_dtype(self, case: Case) -> bool:
        """Whether its condition on the dtype holds for a case."""
        return _holds(self.dtype, dtype_of(case)) if self.dtype else True

    @property
    def conditions(self) -> tuple[str, str, str]:
        """Device, dtype and torch version."""
        return self.device, self.dtype, self.torch

    @property
    def declared(self) -> Declared:
        """What a matching case carries in the plan."""
        return Declared(
            expectation=self.expectation,
            category=self.category,
            reason=self.reason,
            link=self.link,
            owner=self.owner,
            outcome=self.outcome,
            stage=self.stage,
        )


def _holds(glob: str, value: str) -> bool:
    return not glob or fnmatch.fnmatchcase(value, glob)


def dtype_of(case: Case) -> str:
    """The dtype that a case is about: its spec's, or the last of its name, ``""`` if it is about none."""
    return str(case.spec.get("dtype", "")) or dtype_in(case.id)


def dtype_in(name: str) -> str:
    """The dtype that stands at the end of an id or a glob, ``""`` if none does."""
    found = _DTYPE.search(name)
    return found[1] if found else ""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """An entry that decides nothing.

    Attributes:
        why: what is wrong with it, to stand after its pattern.
        nearest: the id that it may have meant, ``""`` if none is near or it matches some.
    """

    entry: Entry
    why: str
    nearest: str = ""

    def __str__(self) -> str:
        hint = f"; did it mean {self.nearest!r}?" if self.nearest else ""
        return f"{self.entry.source}: {self.entry.pattern!r} {self.why}{hint}"


@dataclasses.dataclass(frozen=True, slots=True)
class Declaration:
    """The cases with what was declared of them.

    Attributes:
        entries: the entry that decides a case, by its id.
        unmatched: entries that match no case.
        shadowed: globs whose every case is named by an exact id, so that they decide nothing.
    """

    cases: tuple[Case, ...]
    entries: Mapping[str, Entry]
    unmatched: tuple[Finding, ...]
    shadowed: tuple[Finding, ...]


def load_expectations(paths: Iterable[Path]) -> tuple[Entry, ...]:
    """Read expectation files.

    Raises:
        ExpectationError: a file cannot be read, an entry is not valid or stands twice, or two name one id or
            glob and the conditions of one cover the other's.
    """
    entries = [entry for path in paths for entry in read_entries(read_text(path), path)]
    _refuse_overlaps(entries)
    return tuple(entries)


def read_entries(text: str, path: Path) -> list[Entry]:
    """The entries of a file's text.

    Raises:
        ExpectationError: the text is not TOML, or an entry is not valid.
    """
    return [_entry(block, text, path) for block in blocks(text, path)]


def _refuse_overlaps(entries: Iterable[Entry]) -> None:
    """Two entries of one pattern must hold under conditions of which neither covers the other's."""
    by_pattern: dict[tuple[bool, str], list[Entry]] = {}
    for entry in entries:
        by_pattern.setdefault((entry.is_glob, entry.pattern), []).append(entry)
    for same in by_pattern.values():
        if len(same) < 2:
            continue
        for first, second in itertools.combinations(same, 2):
            if first.conditions == second.conditions:
                raise ExpectationError(
                    f"{second.source}: {second.pattern!r} stands already at {first.source}; keep one of them"
                )
            wide, narrow = (first, second) if _covers(first, second) else (second, first)
            if _covers(wide, narrow):
                raise ExpectationError(
                    f"{narrow.source}: {narrow.pattern!r} is shadowed by {wide.source}, whose conditions "
                    "cover its own; give both conditions that exclude each other"
                )


def _covers(wide: Entry, narrow: Entry) -> bool:
    """Whether the one holds wherever the other does, as far as globs tell."""
    pairs = zip(wide.conditions, narrow.conditions, strict=True)
    return all(not one or one == two or (two and fnmatch.fnmatchcase(two, one)) for one, two in pairs)


def declare(cases: Sequence[Case], expectations: Sequence[Entry], device: str, torch: str) -> Declaration:
    """Give each case what was declared of it; an exact id goes before a glob.

    Args:
        device, torch: type and version that the entries' conditions are about.

    Raises:
        ExpectationError: two entries of one kind match a case.
    """
    active = [entry for entry in expectations if entry.applies(device, torch)]
    exact: dict[str, list[Entry]] = {}
    for entry in active:
        if not entry.is_glob:
            exact.setdefault(entry.pattern, []).append(entry)
    globs: GlobIndex[Entry] = GlobIndex((entry.pattern, entry) for entry in active if entry.is_glob)
    matched, deciding = set[int](), dict[str, Entry]()
    declared = []
    for case in cases:
        named = _the_one(case, exact.get(case.id, ()))
        wide = [entry for entry in globs.matches(case.id) if entry.matches_dtype(case)]
        matched.update(map(id, wide))
        entry_or_none = named or _the_one(case, wide)
        if entry_or_none is not None:
            matched.add(id(entry_or_none))
            deciding[case.id] = entry_or_none
            case = dataclasses.replace(case, declared=entry_or_none.declared)
        declared.append(case)
    return Declaration(tuple(declared), deciding, *_dead(active, cases, matched, deciding))


def _the_one(case: Case, entries: Sequence[Entry]) -> Entry | None:
    """The only entry that holds for a case."""
    holding = [entry for entry in entries if entry.matches_dtype(case)]
    if len(holding) > 1:
        first, second = holding[:2]
        raise ExpectationError(
            f"{case.id!r} is matched by {first.pattern!r} ({first.source}) and {second.pattern!r} "
            f"({second.source}); make one narrower, or name the case by its id"
        )
    return holding[0] if holding else None


def _dead(
    active: Sequence[Entry], cases: Sequence[Case], matched: set[int], deciding: Mapping[str, Entry]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Entries that match no case, and globs that decide none."""
    lost = [entry for entry in active if id(entry) not in matched]
    alive = set(map(id, deciding.values()))
    overruled = [entry for entry in active if id(entry) in matched and id(entry) not in alive]
    index = Nearest(case.id for case in cases) if lost else None
    unmatched = tuple(
        Finding(entry, _why_unmatched(entry), index.find(entry.pattern) if index and n < _NAMED else "")
        for n, entry in enumerate(lost)
    )
    why = "is shadowed: an exact id overrules it for every case that it matches"
    return unmatched, tuple(Finding(entry, why) for entry in overruled)


def _why_unmatched(entry: Entry) -> str:
    return f"matches no case of dtype {entry.dtype}" if entry.dtype else "matches no case"


def _entry(block: Block, text: str, path: Path) -> Entry:
    table = block.table
    problem = _problem(table)
    if problem is not None:
        key, sentence = problem
        raise ExpectationError(f"{path}:{_line_of(key, block, text)}: {sentence}")
    conditions = table.get("conditions") or {}
    return Entry(
        pattern=table.get("id") or table["glob"],
        is_glob="glob" in table,
        expectation=_MEMBERS["expectation"][table["expectation"]],
        category=_MEMBERS["category"][table["category"]],
        reason=table["reason"],
        added=table["added"],
        outcome=table.get("outcome", ""),
        stage=table.get("stage", ""),
        signature=table.get("signature", ""),
        link=table.get("link", ""),
        owner=table.get("owner", ""),
        review_by=table.get("review_by"),
        device=conditions.get("device", ""),
        dtype=conditions.get("dtype", ""),
        torch=conditions.get("torch", ""),
        path=path,
        line=block.line,
    )


def _line_of(key: str, block: Block, text: str) -> int:
    """The line of a key, or of the entry where it has none."""
    found = re.compile(rf"^[ \t]*[\"']?{re.escape(key)}\b", re.MULTILINE).search(text, block.start, block.end)
    return block.line + text.count("\n", block.start, found.start()) if key and found else block.line


def _problem(table: Mapping[str, Any]) -> tuple[str, str] | None:
    """What keeps an entry from the form above: the key and one sentence; ``None`` if nothing does."""
    if not _KNOWN.issuperset(table):
        key = next(key for key in table if key not in _KNOWN)
        near = next(iter(difflib.get_close_matches(key, sorted(_KNOWN), n=1)), "")
        return key, f"unknown key {key!r}" + (f"; did it mean {near!r}?" if near else "")
    if ("id" in table) == ("glob" in table):
        return "glob", "an entry needs either an id or a glob"
    for key in _REQUIRED:
        if key not in table:
            return "", f"{key} is missing"
    for key in _TEXTS:
        if key in table and (not isinstance(table[key], str) or not table[key].strip()):
            return key, f"{key} must be text and not empty"
    for key in _DATES:
        # A TOML datetime is a date too, but its time of day means nothing here.
        if key in table and type(table[key]) is not datetime.date:
            return key, f"{key} must be a date such as 2026-11-03, without quotes"
    for key, known in _MEMBERS.items():
        if key in table and (not isinstance(table[key], str) or table[key] not in known):
            return key, f"{key} {table[key]!r} is none of {', '.join(known)}"
    return _problem_of_meaning(table)


def _problem_of_meaning(table: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is of the right form and cannot be meant."""
    conditions = table.get("conditions", {})
    if not isinstance(conditions, dict) or any(
        key not in _CONDITIONS or not isinstance(value, str) or not value for key, value in conditions.items()
    ):
        return "conditions", f"conditions may hold {', '.join(_CONDITIONS)}, as text"
    if "id" in table and ("*" in table["id"] or "?" in table["id"]) and "[" not in table["id"]:
        return "id", f"the id {table['id']!r} is a glob; write it as glob = ..."
    if "outcome" in table and table["expectation"] not in (Expectation.FAIL, Expectation.FLAKY):
        return "outcome", f"outcome narrows fail and flaky, not {table['expectation']}"
    if table.get("outcome") == Outcome.PASSED:
        return "outcome", "outcome 'passed' is what an entry with expectation 'pass' expects"
    return None
