"""Reading: every number on a page comes through here, from a view, and is kept until the store changes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

import results
from dashboard.launch import store_path
from results import Store, StoreError

Rows = list[dict[str, Any]]
Params = Sequence[Any]

EXPORT_ROWS = 200_000
"""The most rows a download holds; a whole store is better read with DuckDB."""


@st.cache_resource(show_spinner=False)
def _opened(path: str) -> Store:
    return results.open(path)


def store() -> Store:
    """The store of this server, opened read-only once for all its sessions.

    Raises:
        StoreError: there is none, or it cannot be read.
    """
    return _opened(str(store_path(sys.argv[1:])))


def version() -> str:
    """Another text whenever the store is another one; ``""`` while there is none."""
    try:
        return store().changed()
    except StoreError:
        return ""


@st.cache_data(show_spinner=False, max_entries=500)
def _rows(path: str, version: str, sql: str, params: tuple[Any, ...]) -> Rows:
    return store().query_rows(sql, params)


@st.cache_data(show_spinner=False, max_entries=200)
def _frame(path: str, version: str, sql: str, params: tuple[Any, ...]) -> pd.DataFrame:
    return store().query(sql, params)


def rows(sql: str, *params: Any) -> Rows:
    """The rows of a query as plain values."""
    return _rows(str(store().path), store().changed(), sql, params)


def row(sql: str, *params: Any) -> dict[str, Any] | None:
    """The first row of a query, if it has one."""
    found = rows(sql, *params)
    return found[0] if found else None


def number(sql: str, *params: Any) -> int:
    """The one number a query gives."""
    found = row(sql, *params)
    return int(next(iter(found.values())) or 0) if found else 0


def values(sql: str, *params: Any) -> list[str]:
    """The first column of a query, as text."""
    return [str(next(iter(item.values()))) for item in rows(sql, *params)]


def frame(sql: str, params: Params = (), *, order: str, limit: int, offset: int = 0) -> pd.DataFrame:
    """A stretch of the rows of a query, as a frame; never all of them unasked."""
    bounded = f"SELECT * FROM ({sql}) ORDER BY {order} LIMIT {int(limit)} OFFSET {int(offset)}"
    return _frame(str(store().path), store().changed(), bounded, tuple(params))


def csv(sql: str, params: Params = (), *, order: str) -> bytes:
    """The rows of a query as CSV, made when it is asked for and not kept."""
    table = store().query(f"SELECT * FROM ({sql}) ORDER BY {order} LIMIT {EXPORT_ROWS}", params)
    for name in table.columns:
        if table[name].map(lambda cell: hasattr(cell, "tolist") or isinstance(cell, list)).any():
            table[name] = table[name].map(lambda cell: "; ".join(map(str, cell)))
    return table.to_csv(index=False).encode()
