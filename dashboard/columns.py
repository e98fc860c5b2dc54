"""How the columns of tables are shown. A cell is text on a canvas: whatever it holds is not markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import pandas as pd
from streamlit import column_config as cc

from dashboard import look
from results.vocabulary import Outcome, Verdict

Column = Any


def text(label: str, help: str | None = None, *, width: Any = None, pinned: bool = False) -> Column:
    """Plain text."""
    return cc.TextColumn(label, help=help, width=width, pinned=pinned)


def names(label: str, help: str | None = None, *, width: Any = None) -> Column:
    """A list of names."""
    return cc.ListColumn(label, help=help, width=width)


def count(label: str, help: str | None = None, *, width: Any = None) -> Column:
    """A whole number: 1,234."""
    return cc.NumberColumn(label, help=help, format="localized", width=width)


def compact(label: str, help: str | None = None, *, width: Any = None) -> Column:
    """A large number whose size matters: 98M."""
    return cc.NumberColumn(label, help=help, format="compact", width=width)


def share(label: str, help: str | None = None) -> Column:
    """A fraction as a bar and a percentage."""
    return cc.ProgressColumn(label, help=help, format="%.1f%%", min_value=0, max_value=100, width=125)


def milliseconds(label: str, help: str | None = None) -> Column:
    """Milliseconds."""
    return cc.NumberColumn(label, help=help, format="%.1f ms")


def seconds(label: str, help: str | None = None) -> Column:
    """Seconds."""
    return cc.NumberColumn(label, help=help, format="%.2f s")


def size(label: str, help: str | None = None) -> Column:
    """Bytes."""
    return cc.NumberColumn(label, help=help, format="bytes")


def moment(label: str) -> Column:
    """A time in UTC."""
    return cc.DatetimeColumn(label, format="D MMM YYYY, HH:mm")


def outcome(label: str, help: str | None = None, *, width: Any = None) -> Column:
    """Outcomes as chips."""
    return _chips(look.OUTCOMES, label, help, width)


def verdict(label: str, help: str | None = None, *, width: Any = None) -> Column:
    """Verdicts as chips."""
    return _chips(look.VERDICTS, label, help, width)


CHIPS = frozenset(
    {"outcome", "before_outcome", "after_outcome", "verdict"}
    | {"fetch", "load", "forward", "backward", "compile"}
)
"""Columns of views that hold one word of the vocabulary, and are shown as a chip."""


SHARES = frozenset({"share", "device_share"})
"""Columns that hold a fraction, and are shown as a percentage."""


def prepared(table: pd.DataFrame) -> pd.DataFrame:
    """The frame as its columns want it: a word of the vocabulary in a list of one, a fraction times 100."""
    for name in SHARES & set(table.columns):
        table[name] = table[name].astype(float) * 100
    for name in CHIPS & set(table.columns):
        table[name] = table[name].map(lambda word: [] if pd.isna(word) else [word])
    return table


def words(table: Mapping[Any, look.Look]) -> dict[str, str]:
    """Vocabulary words with what a reader sees, for the options of a filter."""
    return {str(word): shown.text for word, shown in table.items()}


def _chips(table: Mapping[Any, look.Look], label: str, help: str | None, width: Any) -> Column:
    options: Sequence[StrEnum] = list(table)
    kind = Outcome if isinstance(options[0], Outcome) else Verdict
    return cc.MultiselectColumn(
        label,
        help=help,
        width=width,
        options=[str(word) for word in options],
        color=[table[word].chip for word in options],
        format_func=lambda word: table[kind(word)].text,
    )
