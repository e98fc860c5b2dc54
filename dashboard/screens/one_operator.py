"""One operator: how it ran by dtype, and the models and tests it touches."""

from __future__ import annotations

import streamlit as st

from dashboard import columns, data, look, notices, shell, table


def page() -> None:
    """The page; the operator is named by ``?op=``, as it was called."""
    run, op = shell.shown_run(), st.query_params.get("op", "")
    shell.back(shell.OPERATORS, "Operators")
    if not op:
        st.title("Operator")
        st.info("The address names no operator: pick one on the Operators page.", icon=":material/info:")
        return
    st.title(look.plain(op))
    if not data.number("SELECT count(*) FROM v_ops WHERE run = ? AND called = ?", run, op):
        st.info(f"Nothing called this operator in run {look.plain(run)}.", icon=":material/info:")
        return
    _gap(run, op)
    _kernels(run, op)
    _models(run, op)
    _tests(run, op)


def _gap(run: str, op: str) -> None:
    gap = data.row("SELECT * FROM v_gaps WHERE run = ? AND op = ? LIMIT 1", run, op)
    if gap is None:
        st.markdown(":green-badge[✓ no fallback]  Every computing call of it ran on the device.")
        return
    ops = data.number("SELECT count(*) FROM v_gaps WHERE run = ?", run)
    st.markdown(
        f":orange-badge[fell back]  Gap {look.count(gap['rank'])} of {look.count(ops)} "
        "by the models it touches."
    )
    shown = {
        "Models": look.count(gap["models"]),
        "Their downloads": look.compact(gap["downloads"]),
        "Tests": look.count(gap["tests"]),
        "CPU calls": look.count(gap["fallback_calls"]),
        "CPU time": look.seconds(gap["fallback_ns"] / 1e9),
        "Moved": look.size(gap["bytes_moved"]),
    }
    for place, (label, value) in zip(st.columns(len(shown)), shown.items(), strict=True):
        place.metric(label, value, border=True)


def _kernels(run: str, op: str) -> None:
    st.subheader("By kernel and dtype")
    table.show(
        "SELECT executed, dtype, device_calls / nullif(device_calls + fallback_calls, 0) AS share, "
        "device_calls, fallback_calls, device_ns / 1e6 AS device_ms, fallback_ns / 1e6 AS fallback_ms, "
        "bytes_moved, models, tests "
        "FROM v_ops WHERE run = ? AND called = ?",
        [run, op],
        order="fallback_calls DESC, device_calls DESC, executed, dtype",
        shown={
            "executed": columns.text("executed", "The kernel that ran", width=240),
            "dtype": columns.text("dtype"),
            "share": columns.share("on device"),
            "device_calls": columns.count("device calls"),
            "fallback_calls": columns.count("CPU calls"),
            "device_ms": columns.milliseconds("device time"),
            "fallback_ms": columns.milliseconds("CPU time"),
            "models": columns.count("models"),
            "tests": columns.count("tests"),
        },
        name="kernels",
        what="kernel",
    )


def _calls(*, models: bool) -> str:
    """Cases of one sort that called the operator; its parameters are the run and the operator."""
    return (
        "SELECT case_id, list(DISTINCT dtype ORDER BY dtype) AS dtypes, "
        "list(DISTINCT stage ORDER BY stage) AS stages, "
        "sum(device_calls)::BIGINT AS device_calls, "
        "sum(fallback_calls)::BIGINT AS fallback_calls, sum(fallback_ns) / 1e6 AS fallback_ms "
        f"FROM v_op_calls WHERE run = ? AND called = ? AND kind {'=' if models else '<>'} 'model' "
        "GROUP BY case_id"
    )


def _models(run: str, op: str) -> None:
    st.subheader("Models that call it")
    table.show(
        "SELECT m.model_id, m.task, m.architecture, m.downloads, c.* FROM v_models m "
        f"JOIN ({_calls(models=True)}) c USING (case_id) WHERE m.run = ?",
        [run, op, run],
        order="fallback_calls DESC, downloads DESC NULLS LAST, model_id, case_id",
        shown={
            "model_id": columns.text("model", width=240),
            "fallback_calls": columns.count("CPU calls"),
            "device_calls": columns.count("device calls"),
            "fallback_ms": columns.milliseconds("CPU time"),
            "dtypes": columns.names("dtypes"),
            "stages": columns.names("stages"),
            "task": columns.text("task"),
            "downloads": columns.compact("downloads"),
        },
        name="operator_models",
        what="model",
        opens=shell.open_model,
        empty=lambda: notices.nothing("model that calls it", narrowed=False, todo="Only tests do."),
    )


def _tests(run: str, op: str) -> None:
    st.subheader("Tests that call it")
    table.show(
        "SELECT t.suite, t.outcome, t.verdict, t.message, c.* FROM v_cases t "
        f"JOIN ({_calls(models=False)}) c USING (case_id) WHERE t.run = ?",
        [run, op, run],
        order="fallback_calls DESC, case_id",
        shown={
            "case_id": columns.text("test", width=380),
            "outcome": columns.outcome("outcome"),
            "fallback_calls": columns.count("CPU calls"),
            "device_calls": columns.count("device calls"),
            "dtypes": columns.names("dtypes"),
            "message": columns.text("message"),
        },
        name="operator_tests",
        what="test",
        opens=shell.open_case,
        empty=lambda: notices.nothing("test that calls it", narrowed=False, todo="Only models do."),
    )


page()
