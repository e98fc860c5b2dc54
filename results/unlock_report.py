"""The unlock ranking read from a store, and as a list that can be printed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from results.store import Store
from results.tables import Format, render
from results.unlock import Blocked, Gain, Ranking

COLUMNS = (
    "operators",
    "lower",
    "models",
    "downloads",
    "tests",
    "unsupported",
    "all_models",
    "all_downloads",
    "all_tests",
    "all_unsupported",
)
"""Of a step: operators so far, which to lower now, what these free, and what all so far do."""


def read_blocked(store: Store, run: str) -> list[Blocked]:
    """What keeps the cases of a run from running on the device alone."""
    return [
        Blocked(
            frozenset(row["ops"]), Gain(row["models"], row["downloads"], row["tests"], row["unsupported"])
        )
        for row in store.rows("v_blocked_sets", run=run)
    ]


def unknown(blocked: Sequence[Blocked], ops: Sequence[str]) -> str:
    """A sentence about the first operator that no case waits for; ``""`` if there is none."""
    known = sorted(frozenset().union(*(row.ops for row in blocked)))
    for op in ops:
        if op not in known:
            near = difflib.get_close_matches(op, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            return f"no case of the run waits for a lowering of {op!r}{hint}"
    return ""


def ranking_rows(ranking: Ranking) -> list[dict[str, Any]]:
    """A row a step, with the columns of ``COLUMNS``."""
    return [
        {
            "operators": step.operators,
            "lower": list(step.ops),
            "models": step.gain.models,
            "downloads": step.gain.downloads,
            "tests": step.gain.tests,
            "unsupported": step.gain.unsupported,
            "all_models": step.total.models,
            "all_downloads": step.total.downloads,
            "all_tests": step.total.tests,
            "all_unsupported": step.total.unsupported,
        }
        for step in ranking.steps
    ]


def sentence(ranking: Ranking) -> str:
    """What the whole ranking comes to, and its bound."""
    total, waiting = ranking.total, ranking.blocked
    if not ranking.steps:
        return "No operators, within that number, free a case that is not free yet."
    return (
        f"Lower {_counted(len(ranking.ops), 'operator')}: {total.models:,} of {waiting.models:,} waiting "
        f"models ({total.downloads:,} downloads) and {total.tests:,} of {waiting.tests:,} tests become "
        f"fallback-free, {_counted(total.unsupported, 'unsupported case')} of these among them. "
        f"No choice of so many operators gives more than {ranking.at_most:,} {ranking.by}."
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def render_ranking(ranking: Ranking, form: Format, *, width: int | None = None) -> str:
    """The steps as a list, below a sentence where people read it."""
    text = render(ranking_rows(ranking), form, columns=COLUMNS, width=width) if ranking.steps else ""
    if form is Format.JSON:
        return text or "[]\n"
    if form is Format.CSV:
        return text or ",".join(COLUMNS) + "\n"
    return f"{sentence(ranking)}\n" + (f"\n{text}" if form is Format.MD and text else text)
