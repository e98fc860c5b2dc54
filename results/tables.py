"""Any list as a table, Markdown, JSON or CSV, whatever its strings hold.

For people (``table``, ``md``) strings are shown as text, on one line and cut. For programs
(``json``, ``csv``) they are whole.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

CELL = 100
"""Characters of a cell that people are shown."""

_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>|~&#$"})
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})

Row = Mapping[str, Any]
Width = Callable[[str], int]
"""Of a column by its name: how many characters of a cell people are shown."""


class Format(StrEnum):
    """The forms in which any list can be had."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MD = "md"


def render(
    rows: Sequence[Row], form: Format, *, columns: Sequence[str] = (), width: int | None = None
) -> str:
    """Render rows; without ``columns`` those of the first row are used.

    Args:
        rows: what to render.
        form: how.
        columns: names of the columns, in order.
        width: of the terminal, for ``table``.
    """
    names = list(columns) or (list(rows[0]) if rows else [])
    if form is Format.JSON:
        return to_json([{name: row[name] for name in names} for row in rows])
    if form is Format.CSV:
        return _csv(rows, names)
    if form is Format.MD:
        return markdown_table(rows, names)
    buffer = io.StringIO()
    Console(file=buffer, width=width, no_color=True).print(rich_table(rows, names))
    return buffer.getvalue()


def rich_table(
    rows: Sequence[Row], columns: Sequence[str], *, title: str = "", limit: int | Width = CELL
) -> Table:
    """A table for a rich console; numbers stand to the right."""
    width = _width(limit)
    table = Table(title=Text(title) if title else None, title_justify="left", header_style="bold")
    for name in columns:
        numeric = bool(rows) and all(isinstance(row[name], int | float) for row in rows)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for row in rows:
        table.add_row(*(Text(shown(row[name], width(name))) for name in columns))
    return table


def markdown_table(rows: Sequence[Row], columns: Sequence[str], *, limit: int | Width = CELL) -> str:
    """A GitHub table, a line a row."""
    width = _width(limit)
    lines = [columns, ["---"] * len(columns)]
    lines += [[markdown_text(row[name], width(name)) for name in columns] for row in rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _width(limit: int | Width) -> Width:
    """One limit for all columns, or each column's own."""
    return limit if callable(limit) else lambda name: limit


def markdown_text(value: Any, limit: int = CELL) -> str:
    """A value as Markdown text in which nothing is markup."""
    return shown(value, limit).translate(_MARKDOWN)


def shown(value: Any, limit: int = CELL) -> str:
    """A value as a person is shown it: one line of printable characters, cut at ``limit``."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        value = ", ".join(f"{key}={item}" for key, item in value.items())
    elif isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    text = str(value)
    visible = one_line(text[: limit + 1])
    return visible if len(visible) <= limit else visible[: limit - 1] + "…"


def one_line(text: str) -> str:
    """A string in which control, format and line-breaking characters are written as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii") if unicodedata.category(char) in _HIDDEN else char
        for char in text
    )


def to_json(value: Any) -> str:
    """JSON that every parser takes: what JSON cannot say (NaN, infinities) is a string, as in event logs."""
    return json.dumps(_plain(value), indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_csv_cell(row[name]) for name in columns])
    return buffer.getvalue()


def _csv_cell(value: Any) -> Any:
    """Lists and maps as JSON; strings on one line, so that a row is a line for every tool."""
    plain = _plain(value)
    if isinstance(plain, list | dict):
        return json.dumps(plain)
    return one_line(plain) if isinstance(plain, str) else plain
