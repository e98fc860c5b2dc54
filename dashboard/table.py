"""One table: a page of a query's rows, with its count, its download, and rows that open a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import columns, data, look

PAGE_ROWS = 100


def show(
    sql: str,
    params: Sequence[Any],
    *,
    order: str,
    shown: Mapping[str, columns.Column],
    name: str,
    what: str,
    opens: Callable[[Mapping[str, Any]], None] | None = None,
    hint: str = "",
    limit: int | None = None,
    height: int | str = "auto",
    empty: Callable[[], object] | None = None,
) -> None:
    """Show a query's rows, a page at a time.

    Args:
        order: its ``ORDER BY``; ends in a unique column, so that pages do not overlap.
        shown: the columns, in order; others are left out.
        name: names the download, the widgets and, for more than one page, the URL parameter.
        what: what a row is, singular, for the count beneath.
        opens: called with the row that a reader clicks.
        hint: says what a click does, where that is not to open what the row is.
        limit: show only the first so many, without paging (a "top" list).
        empty: says in place of the table that the query has no rows.
    """
    total = data.number(f"SELECT count(*) FROM ({sql})", *params)
    if empty is not None and not total:
        empty()
        return
    page_rows = limit or PAGE_ROWS
    foot = st.container()  # filled last but needed first: the page number decides which rows are read
    pages = 1 if limit else -(-total // page_rows)
    page = 1
    body = foot.container()
    bar = foot.container(horizontal=True, vertical_alignment="center", gap="small")
    if pages > 1:
        with bar:
            page = st.pagination(pages, key=f"{name}_page", bind="query-params")
    found = data.frame(sql, params, order=order, limit=page_rows, offset=(page - 1) * page_rows)
    with body:
        _grid(found, shown, name=name, what=what, opens=opens, height=height)
    with bar:
        if opens is not None and not hint:
            hint = f"click one to open the {what}"
        _counted(total, page, page_rows, what, ordered=bool(limit), hint=hint)
        _download(sql, params, order, name)


def _grid(
    found: pd.DataFrame,
    shown: Mapping[str, columns.Column],
    *,
    name: str,
    what: str,
    opens: Callable[[Mapping[str, Any]], None] | None,
    height: int | str,
) -> None:
    seen = columns.prepared(found[list(shown)].copy())
    options: dict[str, Any] = {
        "hide_index": True,
        "column_config": dict(shown),
        "placeholder": look.NOTHING,
        "height": height,
        "alt": f"Table: one {what} a row",
    }
    if opens is None:
        st.dataframe(seen, key=f"{name}_table", **options)
        return
    event: Any = st.dataframe(
        seen, key=f"{name}_table", on_select="rerun", selection_mode="single-cell", **options
    )
    cells = event.selection.cells
    if cells and cells[0][0] < len(found):
        opens(found.iloc[cells[0][0]].to_dict())


def _counted(total: int, page: int, page_rows: int, what: str, *, ordered: bool, hint: str) -> None:
    first, last = (page - 1) * page_rows + 1, min(page * page_rows, total)
    if last - first + 1 == total:
        counted = look.plural(total, what)
    elif ordered:
        counted = f"the first {last} of {look.plural(total, what)}"
    else:
        counted = f"{look.count(first)}–{look.count(last)} of {look.plural(total, what)}"
    st.caption(" · ".join(part for part in (counted, hint) if part), width="stretch")


def _download(sql: str, params: Sequence[Any], order: str, name: str) -> None:
    st.download_button(
        "CSV",
        data=lambda: data.csv(sql, params, order=order),
        file_name=f"{name}.csv",
        mime="text/csv",
        key=f"{name}_csv",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
        help=f"All columns of all rows, up to {look.count(data.EXPORT_ROWS)}",
    )
