"""What a page says when there is nothing to show, or not everything."""

from __future__ import annotations

import streamlit as st

from dashboard import data, look
from results.common_failure import QUERY, CommonFailure
from results.layout import STORE_VARIABLE

_REASONS = 5


def no_store(reason: str, path: str) -> None:
    """There is no store, or it cannot be read."""
    st.title("No results yet")
    st.text(reason)
    st.markdown(
        "Run `make nightly` or `harness nightly` first. This page opens by itself when there are results."
    )
    st.markdown(f"It looks in the folder below. Another one is named by `--store` or `{STORE_VARIABLE}`.")
    st.code(path, language=None, wrap_lines=True)


def no_run() -> None:
    """The store is there and empty."""
    st.title("No run yet")
    st.markdown("The store holds no run. Run `make nightly` or `harness nightly` to make the first one.")


def nothing(what: str, *, narrowed: bool, todo: str) -> None:
    """A table would be empty: either the filters leave nothing, or there never was anything.

    ``what`` is the singular of what the table would list.
    """
    if narrowed:
        st.info(f"No {what} matches these filters.", icon=":material/filter_alt_off:")
    else:
        st.info(f"No {what} in this run. {todo}", icon=":material/info:")


def all_well(said: str) -> None:
    """A table of what went wrong would be empty."""
    st.info(said, icon=":material/check_circle:")


def uncategorised(run: str) -> None:
    """Say that skips have no known reason; nothing if all have one."""
    cases = data.number("SELECT uncategorised FROM v_skip_balance WHERE run = ?", run)
    if cases:
        have = "has" if cases == 1 else "have"
        said = f"**UNCATEGORISED: {look.plural(cases, 'skip')} {have} no known reason.**"
        st.warning(f"{said} They stand first on the page Skips.", icon=":material/help:")


def completeness(run: str) -> None:
    """Say in one quiet line that a run is whole, or loudly that it, or its device, is not."""
    common = data.row(QUERY, run)
    if common is not None:
        said = look.plain(CommonFailure(**common).sentence, 600)
        st.error(f"**INFRASTRUCTURE:** {said}", icon=":material/error:")
    state = data.row(
        "SELECT planned, with_result, missing, state, reason, refused_logs, refused_why, complete "
        "FROM v_completeness WHERE run = ?",
        run,
    )
    if state is None:
        return
    planned = int(state["planned"])
    if state["complete"]:
        cases = look.plural(planned, "planned case")
        st.caption(f":material/check_circle: Complete: all {cases} have a result.")
        return
    missing = int(state["missing"])
    if missing:
        said = f"**INCOMPLETE: {look.count(missing)} of {look.plural(planned, 'case')} have no result.**"
    elif state["state"] == "running":
        said = f"**INCOMPLETE: all {look.plural(planned, 'case')} have a result and the run has not ended.**"
    else:
        said = f"**INCOMPLETE: the run ended {look.plain(str(state['state']))}.**"
    st.warning("  \n".join([said, *_why(run, state)]), icon=":material/warning:")


def _why(run: str, state: dict[str, object]) -> list[str]:
    lines = []
    if state["state"] == "running":
        lines.append("The run is still going on, or was killed; then `harness resume` finishes it.")
    if state["refused_logs"]:
        refused = look.plain(str(state["refused_why"]), 300)
        logs = look.plural(int(str(state["refused_logs"])), "event log")
        lines.append(f"{logs} could not be read: {refused}")
    reasons = data.rows(
        f"SELECT reason, cases FROM v_missing WHERE run = ? ORDER BY cases DESC, reason LIMIT {_REASONS + 1}",
        run,
    )
    for found in reasons[:_REASONS]:
        lines.append(f"{look.plural(found['cases'], 'case')}: {look.plain(found['reason'], 300)}")
    if len(reasons) > _REASONS:
        lines.append("… and other reasons.")
    return lines
