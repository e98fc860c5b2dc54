"""The list of `harness gaps`: operators that fell back to the CPU, the most wanted first."""

from __future__ import annotations

import dataclasses

from results.scoreboard import read_gaps
from results.store import Store
from results.tables import Format, render

COLUMNS = ("rank", "op", "models", "downloads", "tests", "fallback_calls", "dtypes", "example_models")


def render_gaps(
    store: Store,
    run: str | None = None,
    form: Format = Format.TABLE,
    *,
    limit: int | None = 20,
    width: int | None = None,
) -> str:
    """Render the gaps of a run, the latest if none is named; ``limit=None`` gives all.

    Raises:
        StoreError: the store has no such run.
    """
    found = read_gaps(store, store.resolve_run(run), limit=limit)
    if not found and form in (Format.TABLE, Format.MD):
        return "No operator fell back to the CPU.\n"
    return render([dataclasses.asdict(gap) for gap in found], form, columns=COLUMNS, width=width)
