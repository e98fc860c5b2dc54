"""The text of an expectation file as blocks, one an entry, each with the line that it begins on.

``tomllib`` says nothing of lines and keeps no comments, and files of tens of thousands of entries are to load
in seconds. An entry is a ``[[expect]]`` table, so a file is cut at these headers. A block of
the plain form, one ``key = "text"`` or ``key = date`` a line, is read here; any other by ``tomllib``. A file
says the same either way, and an edit takes out or appends blocks and leaves all other text as it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

TABLE = "expect"

_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*(?:expect|\"expect\"|'expect')[ \t]*\]\]", re.MULTILINE)
_TOKENS = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|(?P<header>^[ \t]*\[\[[ \t]*(?:expect|\"expect\"|'expect')[ \t]*\]\])",
    re.MULTILINE | re.DOTALL,
)
# The class of the text leaves out what TOML forbids in it, and what it would have to unescape.
_LINE = re.compile(
    r'(?:([a-z_]+) = (?:"([^"\\\x00-\x08\x0a-\x1f\x7f]*)"|([0-9]{4}-[0-9]{2}-[0-9]{2})|(\{[^\n"\'#]*'
    r'(?:"[^"\\\x00-\x08\x0a-\x1f\x7f]*"[^\n"\'#]*)*\}))[ \t]*)?(?:\#[^\x00-\x08\x0a-\x1f\x7f]*)?(?:\n|\Z)'
)
_PLAIN_HEADER = f"[[{TABLE}]]\n"


class ExpectationError(ValueError):
    """An expectation file that cannot be used; names the file and the line."""


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """One entry of a file.

    Attributes:
        line: number of its header's line, from 1.
        start, end: where its text stands in the file, to the next header or the end.
        table: its keys and values.
    """

    line: int
    start: int
    end: int
    table: dict[str, Any]


def read_text(path: Path) -> str:
    """The text of a file, with Unix line ends.

    Raises:
        ExpectationError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExpectationError(f"{path} cannot be read: {error}") from error


def blocks(text: str, path: Path | str) -> Iterator[Block]:
    """The entries of a file's text, in order; ``path`` is for messages.

    Raises:
        ExpectationError: it is not TOML, or holds anything beside ``[[expect]]`` tables.
    """
    reader = _Reader(path)
    starts = [found.start() for found in _headers(text)]
    ends = [*starts[1:], len(text)] if starts else []
    _check_preamble(text[: starts[0] if starts else len(text)], path)
    line, counted = 1, 0
    for start, end in zip(starts, ends, strict=True):
        line += text.count("\n", counted, start)
        counted = start
        yield Block(line, start, end, reader.table(text, start, end, line))


def _headers(text: str) -> Iterator[re.Match[str]]:
    """Where ``[[expect]]`` begins a line: only in a text of several lines may that be no header."""
    if '"""' not in text and "'''" not in text:
        return _HEADER.finditer(text)
    return (found for found in _TOKENS.finditer(text) if found["header"])


def _check_preamble(text: str, path: Path | str) -> None:
    content = _parse(text, path, 1)
    if TABLE in content:
        raise ExpectationError(f"{path}: {TABLE!r} is not a list of tables; entries begin with [[{TABLE}]]")
    if content:
        raise ExpectationError(f"{path}: unknown table {next(iter(content))!r}; entries are [[{TABLE}]]")


class _Reader:
    """Reads blocks; what repeats in a file, dates and conditions, is read once."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._seen: dict[str, Any] = {}

    def table(self, text: str, start: int, end: int, line: int) -> dict[str, Any]:
        if text.startswith(_PLAIN_HEADER, start):
            plain = self._plain(text, start + len(_PLAIN_HEADER), end)
            if plain is not None:
                return plain
        content = _parse(text[start:end], self._path, line)
        unknown = [name for name in content if name != TABLE]
        if unknown:
            raise ExpectationError(
                f"{self._path}:{line}: unknown table {unknown[0]!r}; entries are [[{TABLE}]]"
            )
        (table,) = content[TABLE]
        return dict(table)

    def _plain(self, text: str, position: int, end: int) -> dict[str, Any] | None:
        """The table of a block of the plain form, ``None`` if it is of another."""
        table: dict[str, Any] = {}
        match = _LINE.match
        while position < end:
            found = match(text, position, end)
            if found is None or found.end() == position:
                return None
            position = found.end()
            key, words, date, inline = found.groups()
            if key is None:
                continue
            if key in table:
                return None
            value = words if words is not None else self._value(date or inline)
            if value is None:
                return None
            table[key] = value
        return table

    def _value(self, written: str) -> Any:
        """A date or an inline table, ``None`` if it is not TOML."""
        if written not in self._seen:
            with contextlib.suppress(tomllib.TOMLDecodeError):
                self._seen[written] = tomllib.loads(f"v = {written}")["v"]
        return self._seen.get(written)


def _parse(text: str, path: Path | str, line: int) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"at line (\d+)", str(error))
        at = line - 1 + int(where[1]) if where else line + text.rstrip("\n").count("\n")
        said = re.sub(r" \(at .*\)$", "", str(error))
        raise ExpectationError(f"{path}:{at} cannot be read as TOML: {said}") from error


def quoted(words: str) -> str:
    """Text as a TOML string on one line."""
    plain = words.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c == "\t" or (c >= " " and c != "\x7f") else _escaped(c) for c in plain) + '"'


def _escaped(char: str) -> str:
    return {"\n": "\\n", "\r": "\\r"}.get(char, f"\\u{ord(char):04x}")


_ORDER = ("id", "glob", "expectation", "outcome", "stage", "category", "reason", "signature")


def entry_text(
    fields: Mapping[str, str | datetime.date], conditions: Mapping[str, str] = MappingProxyType({})
) -> str:
    """An entry as it is written into a file, empty fields and conditions left out."""
    names = [*_ORDER, *(name for name in fields if name not in _ORDER)]
    lines = [f"{name} = {_written(fields[name])}\n" for name in names if fields.get(name)]
    given = ", ".join(f"{name} = {quoted(glob)}" for name, glob in conditions.items() if glob)
    return _PLAIN_HEADER + "".join(lines) + (f"conditions = {{ {given} }}\n" if given else "")


def _written(value: str | datetime.date) -> str:
    return quoted(value) if isinstance(value, str) else value.isoformat()
