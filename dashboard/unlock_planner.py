"""The unlock planner: tick operators and see what a lowering of them frees; which to add is proposed."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import columns, data, look, notices, table
from results.unlock import Blocked, By, Gain, rank, unlocked
from results.unlock_report import ranking_rows

_TICKED = "unlock"
_BY = "unlock_by"
_MORE = "unlock_more"
_MOST_SETS = 20_000
_MOST = 20
_HELP = (
    "Of cases that pass, or are refused for want of an operator; what fails besides is not freed by lowerings"
)


def planner(run: str) -> None:
    """The section of the page Operators; nothing where no case waits for an operator."""
    blocked = _blocked(run)
    if not blocked:
        return
    st.subheader("Unlock planner: what to lower next", anchor="unlock")
    place = st.columns([5, 2, 2])
    known = sorted(frozenset().union(*(row.ops for row in blocked)))
    ticked = place[0].multiselect(
        "Operators taken as lowered",
        known,
        key=_TICKED,
        bind="query-params",
        placeholder="tick operators, or take what is proposed",
    )
    by = By(place[1].selectbox("Rank by", [*By], key=_BY, bind="query-params") or By.MODELS)
    more = place[2].number_input(
        "Propose operators", 0, _MOST, 5, key=_MORE, bind="query-params", help="At most so many more"
    )
    _freed(blocked, ticked)
    _proposed(run, blocked, ticked, int(more), by)
    _waiting(run, ticked)


def _blocked(run: str) -> list[Blocked]:
    rows = data.rows(
        "SELECT ops, models, downloads, tests, unsupported FROM v_blocked_sets WHERE run = ? "
        f"ORDER BY models DESC, tests DESC, ops LIMIT {_MOST_SETS}",
        run,
    )
    if len(rows) == _MOST_SETS:
        st.caption(f"Of the {_MOST_SETS:,} sets of operators that most models and tests wait for.")
    return [
        Blocked(
            frozenset(row["ops"]), Gain(row["models"], row["downloads"], row["tests"], row["unsupported"])
        )
        for row in rows
    ]


def _freed(blocked: Sequence[Blocked], ticked: Sequence[str]) -> None:
    """What the ticked operators free, of all that waits."""
    freed = unlocked(blocked, ticked)
    waiting = sum((row.cases for row in blocked), Gain())
    shown = {
        "Models freed": (look.count(freed.models), look.count(waiting.models)),
        "Their downloads": (look.compact(freed.downloads), look.compact(waiting.downloads)),
        "Tests freed": (look.count(freed.tests), look.count(waiting.tests)),
        "Unsupported no more": (look.count(freed.unsupported), look.count(waiting.unsupported)),
    }
    for place, (label, (value, of)) in zip(st.columns(len(shown)), shown.items(), strict=True):
        place.metric(label, value, border=True, help=_HELP)
        place.caption(f"of {of} that wait for operators only")


@st.cache_data(show_spinner=False, max_entries=100)
def _steps(
    run: str, version: str, _blocked_sets: Sequence[Blocked], ticked: Sequence[str], more: int, by: str
) -> tuple[data.Rows, int]:
    ranking = rank(_blocked_sets, more, By(by), ticked)
    rows = ranking_rows(ranking)
    return rows[1:] if ticked else rows, ranking.at_most


def _proposed(run: str, blocked: Sequence[Blocked], ticked: Sequence[str], more: int, by: By) -> None:
    """Steps to add to what is ticked; a click takes one and those before it."""
    if not more:
        return
    steps, at_most = _steps(run, data.version(), blocked, sorted(ticked), more, by)
    if not steps:
        notices.all_well(f"No {more} more operators free a case by {by}.")
        return
    st.dataframe(
        steps,
        column_order=[
            "lower",
            "models",
            "downloads",
            "tests",
            "unsupported",
            "all_models",
            "all_downloads",
            "all_tests",
        ],
        column_config={
            "lower": columns.names("lower together", "None of them alone frees as much", width=360),
            "models": columns.count("+ models"),
            "downloads": columns.compact("+ downloads"),
            "tests": columns.count("+ tests"),
            "unsupported": columns.count("+ unsupported", "Refused or skipped today, and not then"),
            "all_models": columns.count("models so far"),
            "all_downloads": columns.compact("downloads so far"),
            "all_tests": columns.count("tests so far"),
        },
        hide_index=True,
        key="unlock_steps",
        alt="Table: one step of lowerings a row",
    )
    proposed = [op for step in steps for op in step["lower"]]
    bar = st.container(horizontal=True, vertical_alignment="center", gap="small")
    bar.button("Tick these", on_click=_tick, args=(proposed,), key="unlock_tick", icon=":material/check:")
    bar.caption(f"No choice of so many operators frees more than {look.count(at_most)} {by}", width="stretch")


def _tick(ops: Sequence[str]) -> None:
    st.session_state[_TICKED] = sorted({*st.session_state.get(_TICKED, ()), *ops})


def _waiting(run: str, ticked: Sequence[str]) -> None:
    """The models behind the numbers, those that the ticked operators free first."""
    table.show(
        "SELECT m.model_id, m.downloads, b.ops, "
        "list_filter(b.ops, lambda op: NOT list_contains(?, op)) AS lacks, len(lacks) AS left_over "
        "FROM v_blocked b JOIN v_models m USING (run, case_id) WHERE b.run = ? AND b.freeable",
        [list(ticked), run],
        order="left_over, downloads DESC NULLS LAST, model_id",
        shown={
            "model_id": columns.text("model", width=260),
            "left_over": columns.count("still lacks", "0: freed by what is ticked", width=90),
            "lacks": columns.names("operators it still lacks", width=360),
            "downloads": columns.compact("downloads"),
        },
        name="unlock_models",
        what="model",
        limit=10,
        hint="by operators still lacking; whole in the CSV",
        empty=lambda: st.caption("Only tests wait for operators in this run."),
    )
