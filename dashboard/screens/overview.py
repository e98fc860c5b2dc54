"""Overview: the state of the device this morning, on one screen."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import charts, columns, data, look, notices, run_parts, shell, table
from dashboard.history import Run, previous, trend
from results.vocabulary import OUTCOMES, Outcome, Verdict

_TOP = 8
_FAILURES = [word for word, rule in OUTCOMES.items() if rule.gates or word is Outcome.INFRA_ERROR]


def page() -> None:
    """The page."""
    run = shell.shown_run()
    _title(run)
    notices.completeness(run)
    notices.uncategorised(run)
    before = previous(run)
    left, right = st.columns([3, 2], gap="large")
    with left:
        _funnel(run, before)
    with right:
        _shares(run, before)
    left, right = st.columns([3, 2], gap="large")
    with left:
        _outcomes(run)
    with right:
        _verdicts(run, before)
    left, right = st.columns(2, gap="large")
    with left:
        _gaps(run)
    with right:
        _failures(run)
    run_parts.stability(run, link=True)
    _environment(run)


def _title(run: str) -> None:
    found = data.row("SELECT device, profile, started, seconds FROM v_run_heads WHERE run = ?", run)
    st.title("Overview")
    if found is None:
        return
    parts = [
        f"device **{look.plain(found['device'])}**",
        f"profile {look.plain(found['profile'])}",
        look.moment(found["started"]),
        f"took {look.seconds(found['seconds'])}" if found["seconds"] is not None else "not ended",
        f"run {look.plain(run)}",
    ]
    st.markdown("  ·  ".join(parts))


def _funnel(run: str, before: Run | None) -> None:
    st.subheader("Models by stage")
    stages = data.frame(
        "SELECT stage, ordinal, planned, counted, passed, share FROM v_funnel WHERE run = ? AND on_device",
        [run],
        order="ordinal",
        limit=10,
    )
    if stages.empty:
        notices.nothing("model", narrowed=False, todo="Add some to the profile and run `harness nightly`.")
        return
    charts.funnel(stages)
    planned, counted = int(stages["planned"].iloc[0]), int(stages["counted"].iloc[0])
    said = f"Of {look.plural(counted, 'model')} that could be judged"
    if planned > counted:
        said += f"; {look.count(planned - counted)} of {look.count(planned)} planned could not"
    said += ". A model stops at the first stage it does not pass."
    if before is not None:
        earlier = {
            item["stage"]: item["share"]
            for item in data.rows("SELECT stage, share FROM v_funnel WHERE run = ? AND on_device", before.run)
        }
        moved = [
            f"{row.stage} {look.points(row.share - earlier[row.stage])}"
            for row in stages.itertuples()
            if earlier.get(row.stage) is not None and row.share == row.share
        ]
        said += f" Since {look.moment(before.started)}: {', '.join(moved)}." if moved else ""
    st.caption(said)


def _shares(run: str, before: Run | None) -> None:
    st.subheader("Operator calls on the device")
    found = data.row("SELECT sum(movement_calls) AS movement FROM v_device_share WHERE run = ?", run)
    models, tests = st.columns(2)
    with models:
        _share("Models", run, before, models=True)
    with tests:
        _share("Tests", run, before, models=False)
    routes = data.row('SELECT ops, device_only, "both", fallback_only FROM v_op_routes WHERE run = ?', run)
    if routes is not None:
        st.markdown(
            f"**{look.plural(routes['ops'], 'operator')}** called: {look.count(routes['device_only'])} "
            f"always on the device, {look.count(routes['both'])} on either, "
            f"{look.count(routes['fallback_only'])} always on the CPU."
        )
    movement = look.count(found["movement"]) if found and found["movement"] is not None else "none"
    st.caption(
        f"Copies between host and device ({movement} calls) are left out: they would flatter the share."
    )


def _share(label: str, run: str, before: Run | None, *, models: bool) -> None:
    """The share of calls on the device, with its change and its course over the last runs."""
    kinds = "kind = 'model'" if models else "kind <> 'model'"
    sql = (
        "SELECT run, sum(device_calls)::BIGINT AS device, "
        "sum(device_calls + fallback_calls)::BIGINT AS calls, "
        f"sum(device_calls) / nullif(sum(device_calls + fallback_calls), 0) AS share FROM v_device_share "
        f"WHERE {kinds} AND run = ? GROUP BY run"
    )
    # Run by run: a list of runs is not pushed down to the op calls, and all of the store would be read.
    by_run = {item.run: found for item in trend(run) if (found := data.row(sql, item.run))}
    now = by_run.get(run)
    if now is None or now["share"] is None:
        st.metric(label, look.NOTHING, border=True, help="No operator call was recorded.")
        return
    earlier = by_run[before.run]["share"] if before and before.run in by_run else None
    course = [by_run[name]["share"] for name in by_run if by_run[name]["share"] is not None]
    st.metric(
        label,
        look.share(now["share"]),
        delta=None if earlier is None else look.points(now["share"] - earlier),
        border=True,
        chart_data=course if len(course) > 1 else None,
        help=f"Calls that ran on the device, of all to computing operators; the last {len(course)} runs",
    )
    st.caption(f"{look.compact(now['device'])} of {look.compact(now['calls'])} calls")


def _outcomes(run: str) -> None:
    st.subheader("Test outcomes by suite")
    counts = data.frame(
        "SELECT suite, outcome, ordinal, cases FROM v_outcomes WHERE run = ? AND kind <> 'model'",
        [run],
        order="suite, ordinal",
        limit=500,
    )
    if counts.empty:
        todo = "Name a suite in the profile and run `harness nightly`."
        notices.nothing("test", narrowed=False, todo=todo)
        return
    charts.outcomes(counts)
    totals = data.rows(
        "SELECT suite, sum(cases)::BIGINT AS cases, "
        "coalesce(sum(cases) FILTER (counts), 0)::BIGINT AS counted, "
        "coalesce(sum(cases) FILTER (outcome = 'passed'), 0)::BIGINT AS passed "
        "FROM v_outcomes WHERE run = ? AND kind <> 'model' GROUP BY suite ORDER BY suite LIMIT 20",
        run,
    )
    lines = [
        f"**{look.plain(item['suite'])}** {look.count(item['passed'])} of {look.count(item['counted'])} "
        f"counted passed ({look.share(item['passed'] / item['counted'] if item['counted'] else None)}), "
        f"{look.count(item['cases'])} planned"
        for item in totals
    ]
    lines.append("Upstream's own skips and infrastructure errors are planned but not counted.")
    st.caption("  \n".join(lines))


def _verdicts(run: str, before: Run | None) -> None:
    st.subheader("Verdicts")
    sql = "SELECT verdict, cases FROM v_verdicts WHERE run = ?"
    now = {item["verdict"]: int(item["cases"]) for item in data.rows(sql, run)}
    then = data.rows(sql, before.run) if before is not None else None
    earlier = None if then is None else {item["verdict"]: int(item["cases"]) for item in then}
    shown = [word for word in Verdict if word in now or word in (Verdict.OK, Verdict.REGRESSION)]
    for start in range(0, len(shown), 2):
        for place, word in zip(st.columns(2), shown[start : start + 2], strict=False):
            with place:
                _verdict(word, now.get(word, 0), None if earlier is None else earlier.get(word, 0))
    st.caption("Models and tests together, each result against what was expected of it.")
    if before is not None:
        st.page_link(
            shell.COMPARE, label="What changed since the run before", icon=":material/compare_arrows:"
        )


def _verdict(word: Verdict, cases: int, earlier: int | None) -> None:
    change = None if earlier is None or earlier == cases else cases - earlier
    better: Any = {Verdict.OK: "normal", Verdict.UNEXPECTED_PASS: "off"}.get(word, "inverse")
    st.metric(look.VERDICTS[word].text, look.count(cases), delta=change, delta_color=better, border=True)


def _gaps(run: str) -> None:
    st.subheader("Top gaps")
    table.show(
        "SELECT op, models, tests, fallback_calls, rank FROM v_gaps WHERE run = ?",
        [run],
        order="rank",
        shown={
            "op": columns.text("operator", width="medium"),
            "models": columns.count("models"),
            "tests": columns.count("tests"),
            "fallback_calls": columns.compact("CPU calls"),
        },
        name="top_gaps",
        what="operator",
        opens=shell.open_operator,
        limit=_TOP,
        empty=lambda: notices.all_well("No operator fell back to the CPU."),
    )


def _failures(run: str) -> None:
    st.subheader("Top failures")
    table.show(
        "SELECT cases, outcome, message, exception, stage, example_case AS case_id, signature "
        "FROM v_failures WHERE run = ? AND list_contains(?, outcome)",
        [run, [str(word) for word in _FAILURES]],
        order="cases DESC, signature",
        shown={
            "cases": columns.count("cases", width="small"),
            "outcome": columns.outcome("outcome"),
            "message": columns.text("message", "Of one of the cases; equal but for numbers, names and paths"),
        },
        name="top_failures",
        what="failure",
        opens=shell.open_case,
        hint="click one to open its first case",
        limit=_TOP,
        empty=lambda: notices.all_well("Nothing failed."),
    )


def _environment(run: str) -> None:
    with st.expander("Environment", icon=":material/memory:"):
        run_parts.environment(run)


page()
