"""About the numbers: where each figure comes from and what it is a share of."""

from __future__ import annotations

import streamlit as st

from dashboard import data, look
from results.views import VIEWS
from results.vocabulary import CATEGORIES, FATES, OUTCOMES

_FIGURES = (
    (
        "Models by stage",
        "v_funnel",
        "Models that passed the stage.",
        "Planned models that could be judged: fetched, and with a CPU reference that runs.",
    ),
    (
        "Operator calls on the device",
        "v_device_share",
        "Calls whose kernel ran on the device.",
        "Calls to computing operators in the attempts that count; copies between host and device left out.",
    ),
    (
        "Operators called",
        "v_op_routes",
        "Operators by where they ran.",
        "Distinct called overloads, copies left out.",
    ),
    ("Test outcomes", "v_outcomes", "Cases with the outcome.", "Planned cases; counted as said below."),
    ("Verdicts", "v_verdicts", "Cases with the verdict.", "All planned cases of the run, models and tests."),
    ("Completeness", "v_completeness", "Planned cases that have a result.", "All planned cases of the run."),
    (
        "Gaps",
        "v_gaps",
        "Models and tests in which the operator fell back at least once, by the name the program called.",
        "A count, not a share. Ranked by models, then downloads, then calls.",
    ),
    (
        "Unlock planner",
        "v_blocked_sets",
        "Cases all of whose missing operators are ticked; the choice proposed is results.unlock's.",
        "Cases that passed with fallbacks, or were refused or skipped for want of a named operator.",
    ),
    (
        "Flakes",
        "v_flakes",
        "Cases that passed in one attempt and failed in another, with the cases that disturb them, if known.",
        "A count.",
    ),
    (
        "Skips",
        "v_skips",
        "Skipped cases by source and category, and those that upstream does not generate for the device.",
        "The skips of the run, v_skip_balance; each has one category.",
    ),
    ("Worker deaths", "v_workers", "Processes by how they ended; what a fate says stands below.", "A count."),
    ("Failures", "v_failures", "Cases with the same failure signature.", "A count; one line a signature."),
    ("Models, a model", "v_models", "Outcomes in the last attempt; calls of all stages.", "Its own calls."),
    ("Tests, a test", "v_cases", "The first stage that did not pass decides.", "One row a planned case."),
    ("Kernels of a case", "v_op_calls", "Calls by called operator, executed kernel and dtype.", "A count."),
)


def page() -> None:
    """The page."""
    st.title("About the numbers")
    st.markdown(
        "Every number on these pages is a column of a view in the store, or a sum over its rows. "
        "The command line and exports read the same views, so they say the same. "
        "The pages open the store read-only."
    )
    st.subheader("Figures")
    st.dataframe(
        [
            {"figure": figure, "view": view, "counts": counted, "of": whole}
            for figure, view, counted, whole in _FIGURES
        ],
        hide_index=True,
        height="content",
        alt="Table: one figure a row, with its view and its denominator",
    )
    st.subheader("Outcomes")
    st.dataframe(
        [
            {
                "outcome": look.OUTCOMES[word].text,
                "in the database": str(word),
                "meaning": rule.meaning,
                "counted": rule.counts,
                "gates": rule.gates,
            }
            for word, rule in OUTCOMES.items()
        ],
        hide_index=True,
        height="content",
        alt="Table: one outcome a row, with its meaning and whether it counts",
    )
    st.caption("Counted: in the denominator of coverage. Gates: fails a run where a pass was expected.")
    st.subheader("Why cases are skipped")
    st.dataframe(
        [
            {
                "category": str(word),
                "meaning": rule.meaning,
                "by the suite": rule.eligibility,
                "by the backend": rule.deliberate,
            }
            for word, rule in CATEGORIES.items()
        ],
        hide_index=True,
        height="content",
        alt="Table: one category a row, with its meaning and who may give it",
    )
    st.subheader("How worker processes end")
    st.dataframe(
        [{"fate": str(fate), "meaning": meaning} for fate, meaning in FATES.items()],
        hide_index=True,
        height="content",
        alt="Table: one fate a row, with its meaning",
    )
    st.subheader("Read it yourself")
    st.markdown("The database is plain DuckDB; so is any copy of it.")
    st.code(
        f"import duckdb\nduckdb.connect({str(data.store().database.absolute())!r}, read_only=True)"
        '.sql("SELECT * FROM v_gaps")',
        language="python",
    )
    with st.expander("All views"):
        st.dataframe(
            [{"view": name, "a row is": view.meaning} for name, view in VIEWS.items()],
            hide_index=True,
            height="content",
            alt="Table: one view a row",
        )


page()
