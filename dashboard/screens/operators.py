"""Operators: which are missing on the device, most wanted first, and all that were called."""

from __future__ import annotations

import streamlit as st

from dashboard import columns, data, look, notices, shell, table
from dashboard.unlock_planner import planner
from dashboard.where import Where

_ANY = "any"
_ORDERS = {
    "calls": "calls DESC, called, executed, dtype",
    "CPU calls": "fallback_calls DESC, calls DESC, called, executed, dtype",
    "CPU time": "fallback_ms DESC, called, executed, dtype",
    "models": "models DESC, calls DESC, called, executed, dtype",
    "name": "called, executed, dtype",
}
_ROUTES_HELP = "Counted by the name that was called; copies left out"
_ROUTES = {
    "fell back": "fallback_calls > 0",
    "always on the device": "fallback_calls = 0",
    "always on the CPU": "device_calls = 0",
}


def page() -> None:
    """The page."""
    run = shell.shown_run()
    st.title("Operators")
    notices.completeness(run)
    routes = data.row('SELECT ops, device_only, "both", fallback_only FROM v_op_routes WHERE run = ?', run)
    if routes is None:
        todo = "They are recorded by `harness nightly` on a device that can tell; see `harness doctor`."
        notices.nothing("operator call was recorded", narrowed=False, todo=todo)
        return
    _routes(routes)
    _gaps(run)
    planner(run)
    _all(run)


def _routes(routes: dict[str, int]) -> None:
    shown = {
        "Operators called": routes["ops"],
        "Always on the device": routes["device_only"],
        "On device and CPU": routes["both"],
        "Always on the CPU": routes["fallback_only"],
    }
    for place, (label, ops) in zip(st.columns(len(shown)), shown.items(), strict=True):
        share = None if label == "Operators called" else ops / routes["ops"] if routes["ops"] else None
        place.metric(label, look.count(ops), border=True, help=_ROUTES_HELP)
        place.caption(look.share(share) + " of them" if share is not None else "by called name")


def _gaps(run: str) -> None:
    st.subheader("Gaps: what fell back to the CPU")
    where = Where("run = ?", run)
    search = st.text_input(
        "Search gaps", key="gap", bind="query-params", placeholder="operator", icon=":material/search:"
    )
    where.containing(search or "", "op")
    sql = (
        "SELECT rank, op, models, downloads, tests, fallback_calls, fallback_ns / 1e6 AS fallback_ms, "
        f"bytes_moved, dtypes, executed, example_models FROM v_gaps WHERE {where.sql}"
    )

    def empty() -> None:
        if where.narrowed:
            notices.nothing("gap", narrowed=True, todo="")
        else:
            notices.all_well("No operator fell back to the CPU.")

    table.show(
        sql,
        where.params,
        order="rank",
        shown={
            "rank": columns.count("#", "By models, then downloads, then CPU calls", width=45),
            "op": columns.text("operator", "As the program called it", width=240),
            "models": columns.count("models", "Models in which it fell back at least once"),
            "downloads": columns.compact("downloads", "Of those models together"),
            "tests": columns.count("tests"),
            "fallback_calls": columns.count("CPU calls"),
            "fallback_ms": columns.milliseconds("CPU time"),
            "bytes_moved": columns.size("moved", "Copied between host and device because of it"),
            "dtypes": columns.names("dtypes"),
            "example_models": columns.names("models, most downloaded first"),
        },
        name="gaps",
        what="operator",
        opens=shell.open_operator,
        empty=empty,
    )


def _all(run: str) -> None:
    st.subheader("All operators")
    where = Where("run = ?", run)
    place = st.columns([3, 2, 2, 2])
    search = place[0].text_input(
        "Search operators",
        key="op_q",
        bind="query-params",
        placeholder="called or executed",
        icon=":material/search:",
    )
    dtypes = data.values("SELECT DISTINCT dtype FROM v_ops WHERE run = ? ORDER BY dtype LIMIT 200", run)
    chosen = place[1].multiselect("Dtype", dtypes, key="op_dtype", bind="query-params")
    route = place[2].selectbox("Route", [_ANY, *_ROUTES], key="route", bind="query-params")
    order = place[3].selectbox("Sort by", list(_ORDERS), key="op_sort", bind="query-params")
    others = st.toggle("Copies, allocations and views too", key="others", bind="query-params")
    shell.remember_filters(shell.OPERATORS)
    where.containing(search or "", "called", "executed")
    where.among("dtype", chosen)
    if route in _ROUTES:
        where.add(_ROUTES[route])
    if not others:
        where.add("role = 'compute'")
    sql = (
        "SELECT called, executed, dtype, device_calls + fallback_calls AS calls, "
        "device_calls / nullif(device_calls + fallback_calls, 0) AS share, device_calls, fallback_calls, "
        "device_ns / 1e6 AS device_ms, fallback_ns / 1e6 AS fallback_ms, bytes_moved, models, tests, "
        f"role FROM v_ops WHERE {where.sql}"
    )
    table.show(
        sql,
        where.params,
        order=_ORDERS[order or "calls"],
        shown={
            "called": columns.text("called", "The operator the program called", width=220),
            "executed": columns.text("executed", "The kernel that ran", width=220),
            "dtype": columns.text("dtype", width="small"),
            "share": columns.share("on device"),
            "device_calls": columns.count("device calls"),
            "fallback_calls": columns.count("CPU calls"),
            "models": columns.count("models"),
            "tests": columns.count("tests"),
            "device_ms": columns.milliseconds("device time"),
            "fallback_ms": columns.milliseconds("CPU time"),
            "role": columns.text("role", "What does not compute stands in no share", width="small"),
        },
        name="operators",
        what="operator",
        opens=shell.open_operator,
        empty=lambda: notices.nothing("operator", narrowed=True, todo=""),
    )


page()
