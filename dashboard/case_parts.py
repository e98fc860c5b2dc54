"""Parts that the page of a model and the page of a test share: stages, what went wrong, ops."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import columns, data, look, notices, shell, table
from results.vocabulary import Outcome, Verdict

_TEXT_LIMIT = 20_000


def stages(run: str, case: str) -> data.Rows:
    """The planned stages of a case, in order."""
    return data.rows(
        "SELECT stage, ordinal, outcome, seconds, exception, message, traceback, metrics, facts, "
        "attempt, recorded FROM v_stages WHERE run = ? AND case_id = ? ORDER BY ordinal LIMIT 20",
        run,
        case,
    )


def stage_cards(found: data.Rows) -> None:
    """A card a stage: its outcome and how long it took."""
    for place, item in zip(st.columns(len(found)), found, strict=True):
        shown = look.OUTCOMES[Outcome(item["outcome"])]
        with place.container(border=True, height="stretch"):
            st.markdown(f"**{item['stage']}**")
            st.badge(shown.text, color=shown.badge)
            ran = item["recorded"] and item["seconds"]
            st.caption(look.seconds(item["seconds"]) if ran else look.NOTHING)


def troubles(found: data.Rows) -> None:
    """What the stages that did not pass said, as plain text."""
    for item in found:
        silent = not (item["message"] or item["exception"] or item["traceback"])
        if silent or item["outcome"] == Outcome.PASSED:
            continue
        if item["outcome"] == Outcome.NOT_RUN and any(other["outcome"] != Outcome.NOT_RUN for other in found):
            continue  # it only repeats that an earlier stage did not pass
        shown = look.OUTCOMES[Outcome(item["outcome"])]
        st.markdown(f"**{item['stage']}** :{shown.badge}-badge[{shown.text}]")
        said = ": ".join(part for part in (item["exception"], item["message"]) if part)
        if said:
            st.code(_cut(said), language=None, wrap_lines=True)
        if item["traceback"]:
            with st.expander("Traceback"):
                st.code(_cut(item["traceback"]), language=None, wrap_lines=True)


def attempts(run: str, case: str) -> None:
    """Every attempt of a case that had several, and the cases it disturbs or is disturbed by."""
    _disturbance(
        "It fails after these cases in one process, and passes alone:",
        "SELECT unnest(disturbed_by) FROM v_flakes WHERE run = ? AND case_id = ? LIMIT 50",
        run,
        case,
    )
    _disturbance(
        "These cases fail after it in one process, and pass alone:",
        "SELECT case_id FROM v_flakes WHERE run = ? AND list_contains(disturbed_by, ?) "
        "ORDER BY case_id LIMIT 50",
        run,
        case,
    )
    sql = (
        "SELECT attempt, stage, ordinal, outcome, seconds, exception, message, worker "
        "FROM v_attempt_stages WHERE run = ? AND case_id = ?"
    )
    if data.number(f"SELECT count(*) FROM (SELECT DISTINCT attempt FROM ({sql}))", run, case) < 2:
        return
    st.subheader("Attempts")
    table.show(
        sql,
        [run, case],
        order="attempt, ordinal",
        shown={
            "attempt": columns.count("attempt", width="small"),
            "stage": columns.text("stage", width="small"),
            "outcome": columns.outcome("outcome"),
            "seconds": columns.seconds("time"),
            "message": columns.text("message", width=360),
            "worker": columns.text("worker", "Its output lies in the run's folder under this name"),
        },
        name="attempts",
        what="stage",
    )
    st.caption("The last attempt counts; the others, in processes of their own, are kept.")


def _disturbance(said: str, sql: str, run: str, case: str) -> None:
    others = data.values(sql, run, case)
    if not others:
        return
    flake = look.VERDICTS[Verdict.FLAKE]
    st.markdown(f":{flake.badge}-badge[{flake.text}]  {said}")
    for other in others:
        shell.link_case(other, said)


def measurements(found: data.Rows) -> None:
    """Metrics and facts of all stages, as one table."""
    if not any(item["metrics"] or item["facts"] for item in found):
        return
    st.subheader("Measured")
    lines: list[dict[str, Any]] = []
    for item in found:
        for source in (item["metrics"], item["facts"]):
            for name, value in (source or {}).items():
                text = f"{value:.6g}" if isinstance(value, float) else str(value)
                lines.append({"stage": item["stage"], "name": name, "value": text[:1000]})
    st.dataframe(lines, hide_index=True, width="stretch", alt="Table: one measurement a row")


def ops(run: str, case: str) -> None:
    """The operators of a case by kernel and dtype, with those that fell back first."""
    st.subheader("Operators")
    table.show(
        "SELECT called, executed, dtype, list(DISTINCT stage ORDER BY stage) AS stages, "
        "sum(device_calls)::BIGINT AS device_calls, sum(fallback_calls)::BIGINT AS fallback_calls, "
        "sum(device_ns) / 1e6 AS device_ms, sum(fallback_ns) / 1e6 AS fallback_ms, "
        "sum(bytes_moved)::BIGINT AS bytes_moved, role "
        "FROM v_op_calls WHERE run = ? AND case_id = ? GROUP BY called, executed, dtype, role",
        [run, case],
        order="fallback_calls DESC, role <> 'compute', device_calls DESC, called, executed, dtype",
        shown={
            "called": columns.text("called", "The operator the program called", width=230),
            "executed": columns.text("executed", "The kernel that ran", width=230),
            "dtype": columns.text("dtype", width="small"),
            "device_calls": columns.count("device calls"),
            "fallback_calls": columns.count("CPU calls"),
            "device_ms": columns.milliseconds("device time"),
            "fallback_ms": columns.milliseconds("CPU time"),
            "bytes_moved": columns.size("moved", "Copied between host and device because of the fallback"),
            "stages": columns.names("stages"),
            "role": columns.text("role", "What does not compute stands in no share", width="small"),
        },
        name="case_operators",
        what="kernel",
        empty=lambda: notices.nothing(
            "operator call of this case was recorded", narrowed=False, todo="None of its stages got so far."
        ),
    )


def _cut(text: str) -> str:
    more = len(text) - _TEXT_LIMIT
    return text if more <= 0 else f"{text[:_TEXT_LIMIT]}\n… {more:,} more characters"
