"""One test: its outcome, what it said, its operators, and how it did in earlier runs."""

from __future__ import annotations

import streamlit as st

from dashboard import case_parts, columns, data, look, shell, table

_RUNS = 30


def page() -> None:
    """The page; the test is named by ``?case=``."""
    run, case = shell.shown_run(), st.query_params.get("case", "")
    shell.back(shell.TESTS, "Tests")
    st.title("Test")
    if not case:
        st.info("The address names no test: pick one on the Tests page.", icon=":material/info:")
        return
    st.code(case, language=None, wrap_lines=True)
    found = data.row(
        "SELECT * FROM v_cases WHERE run = ? AND case_id = ? AND kind <> 'model' LIMIT 1", run, case
    )
    if found is None:
        st.info(f"Run {look.plain(run)} did not plan this test.", icon=":material/info:")
    else:
        outcome, verdict = look.OUTCOMES[found["outcome"]], look.VERDICTS[found["verdict"]]
        known = [look.plain(found[name]) for name in ("suite", "op", "dtype") if found[name]]
        known.append(f"expected to {look.plain(found['expectation'])}")
        if found["reason"]:
            known.append(look.plain(found["reason"], 300))
        known.append(look.seconds(found["seconds"]))
        badges = f":{outcome.badge}-badge[{outcome.text}]  :{verdict.badge}-badge[{verdict.text}]"
        st.markdown(badges + "  " + "  ·  ".join(known))
        stages = case_parts.stages(run, case)
        case_parts.troubles(stages)
        case_parts.attempts(run, case)
        case_parts.ops(run, case)
        case_parts.measurements(stages)
    _history(case)


def _history(case: str) -> None:
    st.subheader("Over the runs")
    table.show(
        "SELECT c.run, r.started, c.outcome, c.verdict, c.seconds, c.message "
        "FROM v_cases c JOIN v_run_heads r USING (run) WHERE c.case_id = ?",
        [case],
        order="started DESC NULLS LAST, run",
        shown={
            "started": columns.moment("started (UTC)"),
            "run": columns.text("run"),
            "outcome": columns.outcome("outcome"),
            "verdict": columns.verdict("verdict"),
            "seconds": columns.seconds("time"),
            "message": columns.text("message"),
        },
        name="test_history",
        what="run",
        limit=_RUNS,
    )


page()
