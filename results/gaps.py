"""The list of `harness gaps`: operators that fell back to the CPU, the most wanted first."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from results.scoreboard import read_gaps
from results.store import Store
from results.tables import Format, render

COLUMNS = (
    "rank",
    "op",
    "models",
    "downloads",
    "tests",
    "fallback_calls",
    "fallback_ms",
    "dtypes",
    "example_models",
)
DTYPE_COLUMNS = (
    "op",
    "dtype",
    "models",
    "downloads",
    "tests",
    "device_calls",
    "fallback_calls",
    "fallback_ms",
    "bytes_moved",
)


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
    found = [dataclasses.asdict(gap) for gap in read_gaps(store, store.resolve_run(run), limit=limit)]
    return _render(found, form, COLUMNS, width)


def render_dtypes(
    store: Store,
    run: str | None = None,
    form: Format = Format.TABLE,
    *,
    limit: int | None = 20,
    width: int | None = None,
) -> str:
    """The same, a line for each operator and dtype, with the calls of it that did run on the device."""
    found = store.rows("v_gap_dtypes", run=store.resolve_run(run))[:limit]
    return _render(found, form, DTYPE_COLUMNS, width)


def _render(found: list[dict[str, Any]], form: Format, columns: Sequence[str], width: int | None) -> str:
    if not found and form in (Format.TABLE, Format.MD):
        return "No operator fell back to the CPU.\n"
    rows = [{**row, "fallback_ms": row["fallback_ns"] / 1e6} for row in found]
    return render(rows, form, columns=columns, width=width)
