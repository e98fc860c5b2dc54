"""Tests: the cases of the suites, with filters."""

from __future__ import annotations

import streamlit as st

from dashboard import columns, data, look, notices, shell, table
from dashboard.where import Where

_ORDERS = {
    "name": "case_id",
    "slowest first": "seconds DESC, case_id",
    "verdict": "verdict DESC, case_id",
}


def page() -> None:
    """The page."""
    run = shell.shown_run()
    st.title("Tests")
    notices.completeness(run)
    notices.uncategorised(run)
    where = Where("run = ? AND kind <> 'model'", run)
    _checks(run)
    order = _filters(run, where)
    shell.remember_filters(shell.TESTS)
    sql = (
        "SELECT case_id, suite, file, op, dtype, outcome, verdict, expectation, seconds, exception, message, "
        f"category, reason, link, owner, attempts FROM v_cases WHERE {where.sql}"
    )
    _summary(where)
    todo = "Name a suite in the profile and run `harness nightly`."
    table.show(
        sql,
        where.params,
        order=order,
        shown={
            "case_id": columns.text("test", width=380),
            "outcome": columns.outcome("outcome", width=145),
            "verdict": columns.verdict("verdict", "The outcome against what was expected", width=140),
            "message": columns.text("message", width=300),
            "op": columns.text("operator"),
            "dtype": columns.text("dtype", width="small"),
            "seconds": columns.seconds("time"),
        },
        name="tests",
        what="test",
        opens=shell.open_case,
        height=700,
        empty=lambda: notices.nothing("test", narrowed=where.narrowed, todo=todo),
    )


def _checks(run: str) -> None:
    """What was checked of the entries of torch's lists, if that is more than one thing."""
    sql = "SELECT *, 100 * share AS percent FROM v_checks WHERE run = ?"
    if data.number(f"SELECT count(*) FROM ({sql})", run) < 2:
        return
    with st.expander("By list and check", icon=":material/checklist:"):
        table.show(
            sql,
            [run],
            order="list, check_name",
            shown={
                "list": columns.text("list", "One of torch's lists of what to test"),
                "check_name": columns.text("check"),
                "percent": columns.share("passed", "Of the cases that say something of the device"),
                "passed": columns.count("passed"),
                "failed": columns.count("failed"),
                "unsupported": columns.count("unsupported"),
                "skipped": columns.count("skipped"),
                "planned": columns.count("planned"),
                "seconds": columns.seconds("time"),
            },
            name="checks",
            what="check",
        )


def _filters(run: str, where: Where) -> str:
    """Show the filters, narrow the query by them, and return its order."""
    first = st.columns([3, 2, 3])
    search = first[0].text_input(
        "Search", key="test_q", bind="query-params", placeholder="name or message", icon=":material/search:"
    )
    suites = first[1].multiselect("Suite", _choices(run, "suite"), key="suite", bind="query-params")
    outcomes = first[2].multiselect(
        "Outcome", list(columns.words(look.OUTCOMES)), key="test_outcome", bind="query-params"
    )
    second = st.columns(5)
    verdicts = second[0].multiselect(
        "Verdict", list(columns.words(look.VERDICTS)), key="verdict", bind="query-params"
    )
    ops = second[1].multiselect("Operator", _choices(run, "op"), key="test_op", bind="query-params")
    dtypes = second[2].multiselect("Dtype", _choices(run, "dtype"), key="test_dtype", bind="query-params")
    checks = second[3].multiselect("Check", _choices(run, "check_name"), key="check", bind="query-params")
    order = second[4].selectbox("Sort by", list(_ORDERS), key="test_sort", bind="query-params")
    where.containing(search or "", "case_id", "message")
    where.among("suite", suites)
    where.among("outcome", outcomes)
    where.among("verdict", verdicts)
    where.among("op", ops)
    where.among("dtype", dtypes)
    where.among("check_name", checks)
    return _ORDERS[order or "name"]


def _choices(run: str, column: str) -> list[str]:
    return data.values(
        f"SELECT DISTINCT {column} FROM v_cases WHERE run = ? AND kind <> 'model' AND {column} <> '' "
        f"ORDER BY {column} LIMIT 5000",
        run,
    )


def _summary(where: Where) -> None:
    found = data.rows(
        "SELECT outcome, count(*) AS cases, min(o.ordinal) AS ordinal FROM "
        f"(SELECT outcome FROM v_cases WHERE {where.sql}) "
        "JOIN (SELECT DISTINCT outcome, ordinal FROM v_outcomes) o USING (outcome) "
        "GROUP BY outcome ORDER BY ordinal",
        *where.params,
    )
    if not found:
        return
    shown = ((look.OUTCOMES[item["outcome"]], item["cases"]) for item in found)
    st.markdown("  ".join(f":{one.badge}-badge[{one.text} {look.count(cases)}]" for one, cases in shown))


page()
