"""The script Streamlit runs: finds the store, lets the reader pick a run, and opens the page."""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit as st

if str(Path(__file__).resolve().parents[1]) not in sys.path:  # not installed, and started elsewhere
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from dashboard import data, look, notices, shell
from dashboard.launch import store_path
from results import StoreError

PAGES = (
    st.Page(shell.OVERVIEW, title="Overview", icon=":material/dashboard:", default=True),
    st.Page(shell.MODELS, title="Models", icon=":material/deployed_code:", url_path="models"),
    st.Page(shell.OPERATORS, title="Operators", icon=":material/function:", url_path="operators"),
    st.Page(shell.TESTS, title="Tests", icon=":material/checklist:", url_path="tests"),
    st.Page(shell.SKIPS, title="Skips", icon=":material/rule:", url_path="skips"),
    st.Page(shell.COMPARE, title="Compare", icon=":material/compare_arrows:", url_path="compare"),
    st.Page(shell.RUN_PAGE, title="Run", icon=":material/monitor_heart:", url_path="run"),
    st.Page(shell.ABOUT, title="About the numbers", icon=":material/info:", url_path="about"),
    st.Page(shell.MODEL, title="Model", url_path="model", visibility="hidden"),
    st.Page(shell.OPERATOR, title="Operator", url_path="operator", visibility="hidden"),
    st.Page(shell.TEST, title="Test", url_path="test", visibility="hidden"),
)

# Drawn here: an emoji or a Material icon would be fetched from another server.
_ICON = """<svg viewBox="0 0 16 16"><g fill="#2f9e62"><rect x="1" y="1" width="6" height="6" rx="1"/>
<rect x="9" y="1" width="6" height="6" rx="1"/><rect x="1" y="9" width="6" height="6" rx="1"/></g>
<rect x="9" y="9" width="6" height="6" rx="1" fill="#e0701c"/></svg>"""


def main() -> None:
    """One run of the script: a page for one reader."""
    st.set_page_config(page_title="Device coverage", page_icon=_ICON, layout="wide")
    shell.style()
    page = st.navigation(PAGES)
    shell.remember_version()
    try:
        if shell.choose_run() is None:
            notices.no_run()
        else:
            page.run()
    except StoreError as error:
        if data.version():
            st.error(look.plain(str(error), 500))
        else:
            notices.no_store(str(error), str(store_path(sys.argv[1:]).absolute()))
    with st.sidebar:
        shell.watch()


main()
