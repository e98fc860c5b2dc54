"""Run: how the night itself went: completeness, flakes, deaths, memory, time and environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import columns, data, look, notices, run_parts, shell, table
from results.vocabulary import FATES, Fate

_TOP = 10


def page() -> None:
    """The page."""
    run = shell.shown_run()
    st.title("Run")
    _facts(run)
    notices.completeness(run)
    run_parts.stability(run, link=False)
    _flakes(run)
    _deaths(run)
    left, right = st.columns(2, gap="large")
    with left:
        _memory(run)
    with right:
        _slowest(run)
    _stages(run)
    st.subheader("Environment")
    run_parts.environment(run)


def _facts(run: str) -> None:
    found = data.row(
        "SELECT device, profile, state, started, ended, seconds, harness_version, plan_hash "
        "FROM v_run_heads WHERE run = ?",
        run,
    )
    if found is None:
        return
    parts = [
        f"**{look.plain(run)}**",
        f"device {look.plain(found['device'])}",
        f"profile {look.plain(found['profile'])}",
        f"{look.moment(found['started'])} to {look.moment(found['ended'])}",
        f"{look.seconds(found['seconds'])} from its first start to its last end",
        look.plain(found["state"].replace("_", " ")),
        f"harness {look.plain(found['harness_version'])}",
        f"plan {look.plain(found['plan_hash'], 13)}",
    ]
    st.markdown("  ·  ".join(parts))


def _flakes(run: str) -> None:
    st.subheader("Flakes")
    table.show(
        "SELECT case_id, outcomes, if(len(disturbed_by) = 0 AND experiments > 0, ['not reproducible'], "
        "disturbed_by) AS disturbed_by FROM v_flakes WHERE run = ?",
        [run],
        order="case_id",
        shown={
            "case_id": columns.text("case", width=380),
            "outcomes": columns.names("by attempt", "The outcomes of its attempts, in order"),
            "disturbed_by": columns.names(
                "disturbed by", "It fails after these cases in one process, and passes alone", width=380
            ),
        },
        name="flakes",
        what="case",
        opens=shell.open_case,
        empty=lambda: notices.all_well("No case came out differently when it was run again."),
    )


def _deaths(run: str) -> None:
    st.subheader("Worker processes that died")
    found = data.rows(
        "SELECT fate, deaths FROM v_deaths WHERE run = ? ORDER BY deaths DESC, fate LIMIT 30", run
    )
    if not found:
        notices.all_well("Every worker process ended by itself and well.")
        return
    st.dataframe(
        [
            {"fate": _words(item["fate"]), "processes": item["deaths"], "meaning": FATES[Fate(item["fate"])]}
            for item in found
        ],
        hide_index=True,
        height="content",
        column_config={"meaning": columns.text("meaning", width="large")},
        alt="Table: one fate a row, with how many processes met it",
    )
    table.show(
        "SELECT replace(fate, '_', ' ') AS fate, worker, case_id, stage, nullif(signal, 0) AS signal, "
        "nullif(exit_code, 0) AS exit_code, nullif(peak_bytes, 0) AS peak_bytes, ended, output_tail "
        "FROM v_workers WHERE run = ? AND death",
        [run],
        order="ended DESC, worker",
        shown={
            "fate": columns.text("fate"),
            "worker": columns.text("worker"),
            "case_id": columns.text("in case", width=300),
            "stage": columns.text("stage", width="small"),
            "signal": columns.count("signal"),
            "exit_code": columns.count("exit code"),
            "peak_bytes": columns.size("memory", "The most that it and its children were seen to hold"),
            "ended": columns.moment("ended (UTC)"),
            "output_tail": columns.text("last words", width=300),
        },
        name="deaths",
        what="death",
        opens=_open_case,
        hint="click one to open the case it was in",
    )


def _open_case(row: Mapping[str, Any]) -> None:
    if row["case_id"]:
        shell.open_case(row)


def _memory(run: str) -> None:
    st.subheader("Most memory")
    table.show(
        "SELECT worker, peak_bytes, cases FROM v_workers WHERE run = ? AND peak_bytes > 0",
        [run],
        order="peak_bytes DESC, worker",
        shown={
            "worker": columns.text("worker"),
            "peak_bytes": columns.size("memory"),
            "cases": columns.count("cases", "How many it was given"),
        },
        name="memory",
        what="worker",
        limit=_TOP,
        empty=lambda: st.info("No worker lived long enough to be looked at.", icon=":material/info:"),
    )


def _slowest(run: str) -> None:
    st.subheader("Slowest cases")
    table.show(
        "SELECT case_id, seconds, outcome FROM v_cases WHERE run = ? AND outcome <> 'not_run'",
        [run],
        order="seconds DESC, case_id",
        shown={
            "case_id": columns.text("case", width=240),
            "seconds": columns.seconds("time"),
            "outcome": columns.outcome("outcome"),
        },
        name="slowest",
        what="case",
        opens=shell.open_case,
        limit=_TOP,
    )


def _stages(run: str) -> None:
    st.subheader("Where the time went")
    table.show(
        "SELECT suite, stage, min(ordinal) AS ordinal, count(*) AS cases, sum(seconds) AS seconds, "
        "max(seconds) AS slowest FROM v_stages WHERE run = ? AND recorded GROUP BY suite, stage",
        [run],
        order="suite, ordinal, stage",
        shown={
            "suite": columns.text("suite"),
            "stage": columns.text("stage"),
            "cases": columns.count("cases"),
            "seconds": columns.seconds("all together", "Of all workers, each by its own clock"),
            "slowest": columns.seconds("slowest"),
        },
        name="stages",
        what="stage",
    )


def _words(fate: str) -> str:
    return fate.replace("_", " ")


page()
