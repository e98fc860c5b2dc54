"""How things look: one colour, symbol and word for each outcome, and one way to write a number.

An outcome is never shown by colour alone. Chips in tables are pale with dark text, which reads on a
light and on a dark page; bars in charts are of a middle tone with a contrast of 3:1 on either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from results.vocabulary import Outcome, Verdict

Badge = Literal["red", "orange", "yellow", "blue", "green", "violet", "gray"]


@dataclass(frozen=True, slots=True)
class Look:
    """How one word is shown: its label, a symbol, chip, bar and badge colour."""

    label: str
    symbol: str
    chip: str
    bar: str
    badge: Badge

    @property
    def text(self) -> str:
        """Symbol and label."""
        return f"{self.symbol} {self.label}"


OUTCOMES: Mapping[Outcome, Look] = {
    Outcome.PASSED: Look("passed", "✓", "#c5ecd3", "#2f9e62", "green"),
    Outcome.FAILED_NUMERIC: Look("numeric", "≠", "#ffd9bd", "#e0701c", "orange"),
    Outcome.FAILED_EXCEPTION: Look("exception", "×", "#fbcdd0", "#d9434e", "red"),
    Outcome.UNSUPPORTED: Look("unsupported", "⊘", "#cfdcf5", "#5b84c9", "blue"),
    Outcome.SKIPPED_UPSTREAM: Look("skipped upstream", "»", "#e3e7ec", "#8592a2", "gray"),
    Outcome.SKIPPED_BACKEND: Look("skipped by backend", "»", "#d3dae3", "#6c7b8e", "gray"),
    Outcome.CRASHED: Look("crashed", "†", "#f3c6dd", "#bd3d82", "red"),
    Outcome.TIMED_OUT: Look("timed out", "◷", "#e8d3f7", "#9355c4", "violet"),
    Outcome.OUT_OF_MEMORY: Look("out of memory", "▲", "#ded3fa", "#7a62d8", "violet"),
    Outcome.INFRA_ERROR: Look("infra error", "!", "#dfe3c0", "#848c2c", "gray"),
    Outcome.COLLECTION_ERROR: Look("collection error", "?", "#f0cfc4", "#b8593b", "red"),
    Outcome.NOT_RUN: Look("not run", "–", "#eceef1", "#98a1ad", "gray"),
    Outcome.VACUOUS: Look("vacuous", "∅", "#fbeab0", "#b98a00", "yellow"),
}

VERDICTS: Mapping[Verdict, Look] = {
    Verdict.OK: Look("ok", "✓", "#c5ecd3", "#2f9e62", "green"),
    Verdict.REGRESSION: Look("regression", "×", "#fbcdd0", "#d9434e", "red"),
    Verdict.UNEXPECTED_PASS: Look("unexpected pass", "↑", "#cfdcf5", "#5b84c9", "blue"),
    Verdict.KNOWN_FAILURE: Look("known failure", "◆", "#d3dae3", "#6c7b8e", "gray"),
    Verdict.FLAKE: Look("flake", "~", "#e8d3f7", "#9355c4", "violet"),
    Verdict.NEW: Look("new", "+", "#fbeab0", "#b98a00", "yellow"),
    Verdict.INCOMPLETE: Look("incomplete", "–", "#fbeab0", "#b98a00", "yellow"),
}

NATIVE_BAR = OUTCOMES[Outcome.PASSED].bar
FALLBACK_BAR = OUTCOMES[Outcome.FAILED_NUMERIC].bar

NOTHING = "–"
"""What stands where there is no number."""

_SPECIAL = re.compile(r"([!-/:-@\[-`{-~])")
_NAME_LENGTH = 160


def plain(text: str, limit: int = _NAME_LENGTH) -> str:
    """Any text as Markdown that shows it letter for letter, on one line, cut at ``limit``.

    A colon is followed by a zero-width space, or Streamlit would make ``:name:`` an icon.
    """
    line = " ".join(text.split())
    cut = line if len(line) <= limit else line[: limit - 1] + "…"
    return _SPECIAL.sub(r"\\\1", cut).replace(r"\:", "\\:\u200b")


def count(number: float | None) -> str:
    """1,234."""
    return NOTHING if _unknown(number) else f"{number:,.0f}"


def compact(number: float | None) -> str:
    """98.0M; plain below 10,000."""
    if number is None or _unknown(number):
        return NOTHING
    if number < 10_000:
        return count(number)
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return count(number)


def share(fraction: float | None) -> str:
    """90.8%. Only all of it is 100% and only none of it 0%, whatever rounding would say."""
    if fraction is None or _unknown(fraction):
        return NOTHING
    if 0 < fraction < 1:
        fraction = min(max(fraction, 0.001), 0.999)
    return f"{fraction:.0%}" if fraction in (0, 1) else f"{fraction:.1%}"


def points(difference: float) -> str:
    """A difference of shares in percentage points: +1.2 pp."""
    return f"{difference * 100:+.1f} pp"


def seconds(value: float | None) -> str:
    """0.034 s, 4.2 s, 12 m 14 s, 3 h 02 m."""
    if value is None or _unknown(value):
        return NOTHING
    if value < 60:
        return f"{value:.3f} s" if value < 1 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} m" if hours else f"{minutes} m {rest:02} s"


def size(number: float | None) -> str:
    """5.2 MiB."""
    if number is None or _unknown(number):
        return NOTHING
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def moment(time: datetime | None) -> str:
    """30 Nov 2026, 06:00 UTC."""
    return NOTHING if time is None else f"{time:%d %b %Y, %H:%M} UTC"


def plural(number: int, one: str, many: str = "") -> str:
    """1 model, 2 models."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def _unknown(number: float | None) -> bool:
    return number is None or math.isnan(number)
