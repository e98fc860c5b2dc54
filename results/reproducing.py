"""The command that shows a failed case again, as a line for a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

from results.layout import default_store

PROGRAM = "harness"


def reproducer(case: str, run: str, store: Path, *, program: str = PROGRAM) -> str:
    """``harness repro`` of a case of a run; the store is named unless it is the one that is used anyway.

    A control character of a case's id would move a terminal's cursor, so it is written as a shell's escape.
    """
    words = [program, "repro", case, "--run", run]
    if store.resolve() != default_store().resolve():
        words += ["--store", str(store)]
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else _escape(c) for c in escaped) + "'"


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
