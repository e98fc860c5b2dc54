"""Compare: what changed from any run to the one that is shown, case by case."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import columns, data, history, look, notices, shell, table
from dashboard.where import Where
from results.changes import CHANGES, WORSE, Change
from results.diff import CASES, CLASSES, ENVIRONMENT, FAILURES, ClassRow, check_comparable, class_rows
from results.tables import Format, render

# Key of the picker of the other run, and the parameter of the URL that mirrors it. No docstring: on a page's
# script Streamlit would show it.
BEFORE = "before"

_FIGURES = (Change.REGRESSED, Change.NEWLY_PASSING, Change.NOT_RUN, Change.UNCHANGED)
_CLASS_COLUMNS = (
    "class",
    "cases",
    "of",
    "of_what",
    "share",
    "models",
    "downloads",
    "failed_after",
    "meaning",
)


def page() -> None:
    """The page."""
    run = shell.shown_run()
    st.title("Compare")
    before = _choose_before(run)
    if before is None:
        return
    check_comparable(data.store())
    _sides(before, run)
    _environment(before, run)
    classes = class_rows(data.rows(CLASSES, before, run))
    _figures(before, run, classes)
    _classes(classes)
    _cases(before, run)
    _failures(before, run)


def _choose_before(run: str) -> str | None:
    """Let the reader pick the run to compare with; by default the one before, else any other."""
    others = [item for item in history.runs() if item.run != run]
    if not others:
        st.info(
            "The store holds one run, and nothing to compare it with. `harness nightly` makes the next one.",
            icon=":material/info:",
        )
        return None
    known = [item.run for item in others]
    earlier = history.previous(run)
    usual = earlier.run if earlier is not None else others[0].run
    asked = st.query_params.get(BEFORE)
    chosen = st.selectbox(
        "Compare with run",
        known,
        index=known.index(usual),
        key=BEFORE,
        bind="query-params",
    )
    if asked is not None and asked not in known:
        why = "is the run that is shown" if asked == run else "is not in the store"
        st.warning(f"Run {look.plain(asked)} {why}; this compares with {look.plain(str(chosen))}.")
    return str(chosen)


def _sides(before: str, run: str) -> None:
    """The two runs; what is incomplete is said before any number."""
    for place, label, name in zip(st.columns(2, gap="large"), ("Before", "Now"), (before, run), strict=True):
        with place:
            found = data.row("SELECT device, profile, started FROM v_runs WHERE run = ?", name) or {}
            parts = [
                f"**{label}: {look.plain(name)}**",
                f"device {look.plain(str(found.get('device', '')))}",
                f"profile {look.plain(str(found.get('profile', '')))}",
                look.moment(found.get("started")),
            ]
            st.markdown("  ·  ".join(parts))
            notices.completeness(name)


def _environment(before: str, run: str) -> None:
    st.subheader("Not the same in both")
    table.show(
        ENVIRONMENT,
        [before, run],
        order="ordinal, name",
        shown={
            "name": columns.text("what", width=200),
            "before": columns.text("before", width="large"),
            "after": columns.text("now", width="large"),
        },
        name="differences",
        what="difference",
        empty=lambda: notices.all_well("Device, profile, plan, versions and settings are the same in both."),
    )


def _figures(before: str, run: str, classes: tuple[ClassRow, ...]) -> None:
    st.subheader("What became of the cases")
    by_class = {row.change: row for row in classes}
    worse = data.number(f"SELECT sum(worse) FROM ({CLASSES})", before, run)
    places = st.columns(len(_FIGURES) + 1)
    whole = by_class[Change.UNCHANGED].cases.denominator
    with places[0]:
        st.metric("For the worse", look.count(worse), border=True, help=f"Cases that {WORSE}")
        st.caption(f"of {look.count(whole)} cases of either run")
    for place, change in zip(places[1:], _FIGURES, strict=True):
        row, rule = by_class[change], CHANGES[change]
        with place:
            name = change.replace("_", " ").capitalize()
            st.metric(name, look.count(row.cases.numerator), border=True, help=rule.meaning)
            st.caption(f"of {look.count(row.cases.denominator)} {rule.of}")


def _classes(classes: tuple[ClassRow, ...]) -> None:
    rows: list[dict[str, Any]] = [
        {
            "class": row.change.replace("_", " "),
            "cases": row.cases.numerator,
            "of": row.cases.denominator,
            "of_what": CHANGES[row.change].of,
            "share": None if row.cases.share is None else 100 * row.cases.share,
            "models": row.models.numerator,
            "downloads": row.downloads.numerator,
            "failed_after": row.failed_after,
            "meaning": CHANGES[row.change].meaning,
        }
        for row in classes
    ]
    st.dataframe(
        rows,
        hide_index=True,
        height="content",
        placeholder=look.NOTHING,
        column_config={
            "class": columns.text("class", width=150),
            "cases": columns.count("cases", width="small"),
            "of": columns.count("of", "How many could have come into this class", width="small"),
            "of_what": columns.text("which", width=170),
            "share": columns.share("share"),
            "models": columns.count("models", "Models among the cases", width="small"),
            "downloads": columns.compact("downloads", "Of those models, where they are known"),
            "failed_after": columns.count("fail now", "Cases of the class that fail in the run shown"),
            "meaning": columns.text("meaning", width=420),
        },
        alt="Table: one class a row, with its count and of how many",
    )
    st.download_button(
        "CSV",
        data=lambda: render(rows, Format.CSV, columns=_CLASS_COLUMNS).encode(),
        file_name="classes.csv",
        mime="text/csv",
        key="classes_csv",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
    )


def _cases(before: str, run: str) -> None:
    st.subheader("Cases")
    where = Where("true")
    narrowed = _filters(before, run, where)
    shell.remember_filters(shell.COMPARE)
    cases = CASES.replace("*", "*, replace(class, '_', ' ') AS change", 1)
    table.show(
        f"SELECT * FROM ({cases}) WHERE {where.sql}",
        [before, run, *where.params],
        order="worse DESC, class = 'unchanged', downloads DESC NULLS LAST, class, case_id",
        shown={
            "change": columns.text("class", width=140),
            "case_id": columns.text("case", width=360),
            "before_outcome": columns.outcome("before", width=135),
            "after_outcome": columns.outcome("now", width=135),
            "after_stage": columns.text("stage now", width="small"),
            "after_message": columns.text("message now", width=280),
            "downloads": columns.compact("downloads", width="small"),
        },
        name="changes",
        what="case",
        opens=shell.open_case,
        empty=lambda: _no_case(narrowed),
    )


def _no_case(narrowed: bool) -> None:
    if narrowed:
        notices.nothing("case", narrowed=True, todo="")
    else:
        notices.all_well("Every case came out as before.")


def _filters(before: str, run: str, where: Where) -> bool:
    """Show the filters and narrow the query by them; without a class, what is unchanged is left out."""
    places = st.columns([3, 3, 2])
    search = places[0].text_input(
        "Search",
        key="change_q",
        bind="query-params",
        placeholder="name or message",
        icon=":material/search:",
    )
    classes = places[1].multiselect(
        "Class",
        [str(change) for change in Change],
        key="change",
        bind="query-params",
        placeholder="all but unchanged",
    )
    suites = data.values(f"SELECT DISTINCT suite FROM ({CLASSES}) ORDER BY suite LIMIT 500", before, run)
    chosen = places[2].multiselect("Suite", suites, key="change_suite", bind="query-params")
    if not classes:
        where.add("class <> 'unchanged'")
    where.among("class", classes)
    where.among("suite", chosen)
    messages = ("before_message", "after_message")
    where.containing(search or "", "case_id", *(f"coalesce({name}, '')" for name in messages))
    return bool(classes or chosen or search)


def _failures(before: str, run: str) -> None:
    st.subheader("Failures that are new, by signature")
    table.show(
        f"SELECT replace(class, '_', ' ') AS change, cases, models, downloads, outcome, stage, exception, "
        f"message, example_case AS case_id, signature FROM ({FAILURES})",
        [before, run],
        order="cases DESC, downloads DESC, change, signature",
        shown={
            "change": columns.text("class", width=140),
            "cases": columns.count("cases", width="small"),
            "models": columns.count("models", width="small"),
            "outcome": columns.outcome("outcome", width=135),
            "message": columns.text("message", "Of one of the cases", width=420),
            "case_id": columns.text("for example", width=300),
        },
        name="new_failures",
        what="failure",
        opens=shell.open_case,
        hint="click one to open its first case",
        empty=lambda: notices.all_well("Nothing fails that did not fail like that before."),
    )


page()
