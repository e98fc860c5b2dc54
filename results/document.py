"""A report as a title, warnings, tables and notes; shown on a terminal, as Markdown or as one HTML file.

Whatever the strings hold is shown as text. Markdown stays below what CI services take as a summary.
"""

from __future__ import annotations

import dataclasses
import html
import io
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from results.tables import CELL, Row, markdown_table, markdown_text, one_line, rich_table, shown

HTML = "html"
"""A form of reports, beside those of any list."""

MARKDOWN_BYTES = 1024 * 1024
"""The most that a Markdown document takes: GitHub refuses a step's summary above it (docs.github.com)."""

_WHOLE = 2000
_RESERVE = 64 * 1024
"""Kept free of rows, in bytes: titles of later sections, and what was left out."""


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """One table of a document.

    Attributes:
        limit: characters of a cell that people are shown.
        code: columns that hold what is typed into a shell: never cut short of ``_WHOLE`` characters.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    limit: int = CELL
    code: tuple[str, ...] = ()

    def cell(self, row: Row, name: str) -> str:
        """A cell as people are shown it."""
        return shown(row[name], self.width(name))

    def width(self, name: str) -> int:
        """Characters of a column's cells that are shown."""
        return _WHOLE if name in self.code else self.limit


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A report.

    Attributes:
        warnings: what must be said before any number.
        notes: lines below the tables.
        whole: the command that prints all of it, for a form that had to leave something out.
    """

    title: str
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    whole: str


def print_document(document: Document, console: Console) -> None:
    """Print a document to a terminal."""
    console.print(Text(one_line(document.title), style="bold"))
    for warning in document.warnings:
        console.print(Text(one_line(warning), style="bold yellow"))
    for section in document.sections:
        console.print()
        console.print(
            rich_table(section.rows, section.columns, title=one_line(section.title), limit=section.width)
        )
    console.print()
    for note in document.notes:
        console.print(Text(one_line(note)), soft_wrap=True)


def terminal(document: Document, *, width: int | None = None) -> str:
    """A document as a terminal shows it, without colours."""
    buffer = io.StringIO()
    print_document(document, Console(file=buffer, width=width, no_color=True))
    return buffer.getvalue()


def markdown(document: Document, *, most: int = MARKDOWN_BYTES) -> str:
    """A document as GitHub Markdown of at most so many bytes; rows that do not fit are counted, not shown."""
    parts = [f"## {markdown_text(document.title, _WHOLE)}\n"]
    parts += [f"> **{markdown_text(warning, _WHOLE)}**\n" for warning in document.warnings[:20]]
    notes = "".join(f"- {markdown_text(note, _WHOLE)}\n" for note in document.notes[:20])
    left = most - _RESERVE - _size("\n".join([*parts, notes]))
    for section in document.sections:
        text, left = _fitting(section, left, document.whole)
        parts.append(text)
    return "\n".join([*parts, notes])


def _fitting(section: Section, left: int, whole: str) -> tuple[str, int]:
    """A section with the rows for which there is room, and the room that is left."""
    heading = f"### {markdown_text(section.title, _WHOLE)}\n\n"
    lines = markdown_table(section.rows, section.columns, limit=section.width).splitlines(keepends=True)
    kept = 0
    for line in lines:
        if kept > 1 and _size(line) > left:
            break
        left -= _size(line)
        kept += 1
    text = heading + "".join(lines[:kept])
    if kept < len(lines):
        hint = markdown_text(
            f"{len(lines) - kept:,} more rows do not fit here; {whole} has them all.", _WHOLE
        )
        text += f"\n{hint}\n"
    return text, left


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


_NUMBER = ' class="number"'
_SHORT = 20
"""Characters of a cell that is not broken into lines."""

_STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1320px; padding: 0 1rem;
  color: light-dark(#1b2430, #e3e8ee); background: light-dark(#ffffff, #12171e); }
h1 { font-size: 1.35rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.warning { border-left: 4px solid #d08a00; padding: .5rem .8rem; font-weight: 600; overflow-wrap: anywhere;
  background: light-dark(#fff5d9, #3a2f10); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; overflow-wrap: anywhere;
  min-width: 4.5rem; border-bottom: 1px solid light-dark(#dde3ea, #2b3541); }
th { position: sticky; top: 0; background: light-dark(#f2f5f8, #1b232d); overflow-wrap: normal; }
.number { text-align: right; font-variant-numeric: tabular-nums; } .short { white-space: nowrap; }
code { font: 12.5px/1.5 ui-monospace, monospace; user-select: all; }
footer { margin-top: 2rem; overflow-wrap: anywhere; color: light-dark(#51606f, #9aa8b6); }
"""


def page(document: Document) -> str:
    """A document as one HTML file that asks nothing of any server and runs no script."""
    warnings = "".join(f'<p class="warning" role="alert">{_text(said)}</p>\n' for said in document.warnings)
    sections = "".join(map(_html_section, document.sections))
    notes = "".join(f"<p>{_text(note)}</p>\n" for note in document.notes)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(document.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{_text(document.title)}</h1>\n{warnings}{sections}<footer>\n{notes}</footer>\n</body>\n</html>\n"
    )


def _html_section(section: Section) -> str:
    heads = "".join(_html_head(section, name) for name in section.columns)
    rows = "".join(
        "<tr>" + "".join(_html_cell(section, row, name) for name in section.columns) + "</tr>\n"
        for row in section.rows
    )
    return (
        f'<section>\n<h2>{_text(section.title)}</h2>\n<div class="scroll"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n</section>\n"
    )


def _html_head(section: Section, name: str) -> str:
    number = bool(section.rows) and all(_is_number(row[name]) for row in section.rows)
    return f'<th scope="col"{_NUMBER if number else ""}>{_text(name)}</th>'


def _html_cell(section: Section, row: Row, name: str) -> str:
    text = _text(section.cell(row, name), section.width(name))
    if name in section.code:
        return f"<td><code>{text}</code></td>"
    short = ' class="short"' if len(text) <= _SHORT else ""
    return f"<td{_NUMBER if _is_number(row[name]) else short}>{text}</td>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(text: str, limit: int = _WHOLE) -> str:
    return html.escape(shown(text, limit))
