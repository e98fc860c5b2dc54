"""The charts. Every number in one also stands beside it as text, for readers who do not see it."""

from __future__ import annotations

import json
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from dashboard import look
from results.vocabulary import Outcome

_BAR = 26
_ROW = 38
_FUNNEL_BAR = 34
_FUNNEL_ROW = 54


def funnel(stages: pd.DataFrame) -> None:
    """A bar a stage: models that passed it, on a track of all that were counted.

    Args:
        stages: ``stage, counted, passed, share`` in order.
    """
    stages = stages.assign(
        said=[
            f"{look.count(passed)} of {look.count(counted)}  ·  {look.share(share)}"
            for passed, counted, share in zip(
                stages["passed"], stages["counted"], stages["share"], strict=True
            )
        ],
    )
    # The words are an axis, not a text mark: only axes take the colour of a light or a dark page.
    words: dict[str, Any] = {
        "labelFontSize": 14,
        "labelFontWeight": 600,
        "labelLimit": 300,
        "ticks": False,
        "domain": False,
        "title": None,
    }
    said_of = {row.stage: row.said for row in stages.itertuples()}
    numbers = f"({json.dumps(said_of)})[datum.value]"
    base = alt.Chart(stages).encode(
        tooltip=[
            alt.Tooltip("stage", title="stage"),
            alt.Tooltip("passed", title="models that passed"),
            alt.Tooltip("counted", title="models counted"),
            alt.Tooltip("share", title="share", format=".1%"),
        ],
    )
    track = base.mark_bar(size=_FUNNEL_BAR, color="#8592a2", opacity=0.18, cornerRadius=3).encode(
        x=alt.X("counted:Q", axis=None),
        y=alt.Y("stage:N", sort=None, axis=alt.Axis(orient="right", labelExpr=numbers, **words)),
    )
    bars = base.mark_bar(size=_FUNNEL_BAR, color=look.NATIVE_BAR, cornerRadius=3).encode(
        x=alt.X("passed:Q"), y=alt.Y("stage:N", sort=None, axis=alt.Axis(**words))
    )
    said = "; ".join(f"{stage} {words}" for stage, words in said_of.items())
    chart = (track + bars).resolve_scale(y="independent")
    _draw(chart, _FUNNEL_ROW * len(stages), says=f"Models that pass each stage: {said}")


def outcomes(counts: pd.DataFrame) -> None:
    """A stacked bar a suite, in the order and colours of the vocabulary.

    Args:
        counts: ``suite, outcome, ordinal, cases``.
    """
    present = [word for word in Outcome if word in set(counts["outcome"])]
    counts = counts.assign(word=[look.OUTCOMES[Outcome(word)].text for word in counts["outcome"]])
    colours = alt.Scale(
        domain=[look.OUTCOMES[word].text for word in present],
        range=[look.OUTCOMES[word].bar for word in present],
    )
    chart = (
        alt.Chart(counts)
        .mark_bar(size=_BAR)
        .encode(
            x=alt.X("sum(cases):Q", stack="normalize", title=None, axis=alt.Axis(format="%", tickCount=5)),
            y=alt.Y("suite:N", title=None, axis=alt.Axis(labelLimit=140, labelFontSize=13, ticks=False)),
            color=alt.Color(
                "word:N",
                scale=colours,
                title=None,
                legend=alt.Legend(orient="bottom", columns=4, labelFontSize=12),
            ),
            order=alt.Order("ordinal:Q"),
            tooltip=[
                alt.Tooltip("suite"),
                alt.Tooltip("word", title="outcome"),
                alt.Tooltip("cases", title="cases", format=","),
            ],
        )
    )
    suites = counts["suite"].nunique()
    says = f"Outcomes of {look.plural(suites, 'suite')}, as shares of cases"
    _draw(chart, alt.Step(_ROW), says=says)


def _draw(chart: Any, height: Any, *, says: str) -> None:
    sized = chart.properties(height=height).configure_view(strokeWidth=0)
    st.altair_chart(sized, alt=says[:500], width="stretch")
