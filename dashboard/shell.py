"""What every page has around it: the run picker, the notice of new results, and the links between pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import data, history, look

LATEST = "latest"
RUN = "run"
"""Key of the run picker, and the parameter of the URL that mirrors it."""

_SHOWN_RUN = "shown_run"
_SEEN = "seen_version"
_POLL_SECONDS = 8

_STYLE = """<style>
.stMainBlockContainer { padding: 2.6rem 1.8rem 4rem; max-width: 1500px; }
[data-testid="stMetric"] { height: 100%; }
</style>"""


def style() -> None:
    """Spacing that the theme cannot set. A constant: no data ever goes into HTML."""
    st.html(_STYLE)


def choose_run() -> str | None:
    """Let the reader pick a run and remember it; ``None`` if the store holds none.

    "latest" follows the store: a link without ``?run=`` shows the newest results on any day.
    """
    runs = [item.run for item in history.runs()]
    if not runs:
        return None
    asked = st.query_params.get(RUN, LATEST)
    chosen = st.sidebar.selectbox("Run", [LATEST, *runs], key=RUN, bind="query-params")
    run = runs[0] if chosen in (None, LATEST) else str(chosen)
    if asked not in (LATEST, *runs):
        st.warning(f"The store holds no run {look.plain(asked)}; this is {look.plain(run)}.")
    st.session_state[_SHOWN_RUN] = run
    return run


def shown_run() -> str:
    """The run that the page is about."""
    return str(st.session_state[_SHOWN_RUN])


def remember_version() -> None:
    """Note which state of the store this page shows."""
    st.session_state[_SEEN] = data.version()


@st.fragment(run_every=_POLL_SECONDS)
def watch() -> None:
    """Tell a reader that a run has put new results in the store; looking costs one ``stat``."""
    seen, now = st.session_state.get(_SEEN, ""), data.version()
    if now == seen or not now:
        return
    if not seen:  # nothing was on the page yet that a reader could be in the middle of
        st.rerun(scope="app")
    st.info("There are new results.", icon=":material/update:")
    if st.button("Show them", width="stretch", type="primary"):
        st.rerun(scope="app")


# Pages are named by their script, relative to app.py, which is how st.switch_page finds them.
OVERVIEW = "screens/overview.py"
MODELS = "screens/models.py"
MODEL = "screens/one_model.py"
OPERATORS = "screens/operators.py"
OPERATOR = "screens/one_operator.py"
TESTS = "screens/tests.py"
TEST = "screens/one_test.py"
SKIPS = "screens/skips.py"
COMPARE = "screens/compare.py"
RUN_PAGE = "screens/run.py"
ABOUT = "screens/about.py"


def open_model(row: Mapping[str, Any]) -> None:
    """Go to the page of the row's model."""
    st.switch_page(MODEL, query_params={"model": row["model_id"]})


def open_operator(row: Mapping[str, Any]) -> None:
    """Go to the page of the row's operator, by the name it was called."""
    st.switch_page(OPERATOR, query_params={"op": row["op"] if "op" in row else row["called"]})


def open_case(row: Mapping[str, Any]) -> None:
    """Go to the page of the row's case, be it a model or a test."""
    page, query = _place(str(row["case_id"]))
    st.switch_page(page, query_params=query)


def link_case(case: str, key: str) -> None:
    """A button that opens the page of a case, from the page of another one.

    Not a page link: between two cases of one page it would leave the first one's name in the address.
    """
    page, query = _place(case)
    if not st.button(look.plain(case), key=f"{key} {case}", icon=":material/arrow_forward:", type="tertiary"):
        return
    if set(query) <= set(st.query_params):  # this very page
        st.query_params.update(query)
        st.rerun()
    st.switch_page(page, query_params=query)


def _place(case: str) -> tuple[str, dict[str, str]]:
    if case.startswith("model::"):
        return MODEL, {"model": case.removeprefix("model::").rpartition("@")[0]}
    return TEST, {"case": case}


def remember_filters(page: str) -> None:
    """Keep the page's filters, so that the way back to it from a row leads to the same view."""
    st.session_state[f"filters of {page}"] = {
        name: st.query_params.get_all(name) for name in st.query_params if name != RUN
    }


def back(page: str, label: str) -> None:
    """The way back to a list, as it was filtered."""
    kept = st.session_state.get(f"filters of {page}") or None
    st.page_link(page, label=label, icon=":material/arrow_back:", query_params=kept)
