"""Parts about a run as a whole, which the Overview and the page of the run share."""

from __future__ import annotations

import streamlit as st

from dashboard import columns, data, look, shell, table


def stability(run: str, *, link: bool) -> None:
    """How steadily a run went: flakes, deaths, memory and resumes, each a figure."""
    shown = {
        "Flakes": (
            look.count(data.number("SELECT count(*) FROM v_flakes WHERE run = ?", run)),
            "Cases that passed in one attempt and failed in another",
        ),
        "Worker deaths": (
            look.count(data.number("SELECT count(*) FROM v_workers WHERE run = ? AND death", run)),
            "Processes that did not end by themselves, or not well",
        ),
        "Peak memory": (
            look.size(_peak(run)),
            "The most that one worker, with its children, was seen to hold",
        ),
        "Resumed": (
            look.plural(data.number("SELECT resumes FROM v_run_heads WHERE run = ?", run), "time"),
            "How often a supervisor went on with the run",
        ),
    }
    for place, (label, (value, help)) in zip(st.columns(len(shown)), shown.items(), strict=True):
        place.metric(label, value, border=True, help=help)
    if link:
        st.page_link(shell.RUN_PAGE, label="More about this run", icon=":material/monitor_heart:")


def _peak(run: str) -> int | None:
    """Bytes; ``None`` where nobody looked."""
    return data.number("SELECT max(peak_bytes) FROM v_workers WHERE run = ? LIMIT 1", run) or None


def environment(run: str) -> None:
    """What the run ran on and with."""
    table.show(
        "SELECT e.key AS name, e.value AS value FROM (SELECT unnest(map_entries(environment)) AS e "
        "FROM v_run_heads WHERE run = ?)",
        [run],
        order="name",
        shown={"name": columns.text("name", width=200), "value": columns.text("value", width="large")},
        name="environment",
        what="fact",
    )
