"""Colours, symbols, numbers and escaping."""

from __future__ import annotations

import tomllib

import pytest

from dashboard import look
from dashboard.launch import APP
from results.vocabulary import Outcome, Verdict

ALL = [*look.OUTCOMES.values(), *look.VERDICTS.values()]


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    """Contrast ratio of two colours as WCAG 2 defines it."""
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_word_has_a_look_of_its_own() -> None:
    assert set(look.OUTCOMES) == set(Outcome)
    assert set(look.VERDICTS) == set(Verdict)
    assert len({shown.text for shown in look.OUTCOMES.values()}) == len(Outcome)
    assert len({shown.bar for shown in look.OUTCOMES.values()}) == len(Outcome)


@pytest.mark.parametrize("shown", ALL, ids=lambda shown: shown.label)
def test_chips_and_bars_can_be_read(shown: look.Look) -> None:
    assert contrast(shown.chip, "#1c2430") >= 7
    theme = tomllib.loads((APP.parent / ".streamlit/config.toml").read_text())["theme"]
    assert contrast(shown.bar, theme["dark"]["backgroundColor"]) >= 3
    assert contrast(shown.bar, theme["light"]["backgroundColor"]) >= 2.6


def test_plain_leaves_no_markup() -> None:
    assert look.plain("**a** <b> [x](y) :red[z] $m$ `c`\nd") == (
        r"\*\*a\*\* \<b\> \[x\]\(y\) \:" + "\u200b" + r"red\[z\] \$m\$ \`c\` d"
    )
    assert len(look.plain("x" * 10_000)) == 160


@pytest.mark.parametrize(
    ("fraction", "said"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0, "0%"),
        (1, "100%"),
        (0.99999, "99.9%"),
        (1e-9, "0.1%"),
        (0.5, "50.0%"),
    ],
)
def test_only_all_is_100_percent(fraction: float | None, said: str) -> None:
    assert look.share(fraction) == said


def test_numbers() -> None:
    assert look.count(1234567) == "1,234,567"
    assert look.compact(9_999) == "9,999"
    assert look.compact(98_000_000) == "98.0M"
    assert look.seconds(0.0341) == "0.034 s"
    assert look.seconds(734) == "12 m 14 s"
    assert look.seconds(3 * 3600 + 120) == "3 h 02 m"
    assert look.size(1536) == "1.5 KiB"
    assert look.plural(1, "model") == "1 model"
    assert look.plural(2000, "model") == "2,000 models"
