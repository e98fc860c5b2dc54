"""Models: how far each one gets, and which of them have something in common."""

from __future__ import annotations

import streamlit as st

from dashboard import columns, data, look, notices, shell, table
from dashboard.where import Where
from results.vocabulary import MODEL_STAGES

_ANY = "any"
_ORDERS = {
    "downloads": "downloads DESC NULLS LAST, model_id, revision",
    "name": "model_id, revision",
    "fallback calls": "fallback_calls DESC, model_id, revision",
    "device share": "device_share NULLS LAST, model_id, revision",
    "seconds": "seconds DESC, model_id, revision",
}
_STAGES = ", ".join(f'"{stage}"' for stage in MODEL_STAGES)
_STAGE_HELP = "What came of this stage"


def page() -> None:
    """The page."""
    run = shell.shown_run()
    st.title("Models")
    notices.completeness(run)
    where = Where("run = ?", run)
    order = _filters(run, where)
    shell.remember_filters(shell.MODELS)
    sql = (
        f"SELECT model_id, task, architecture, {_STAGES}, device_share, fallback_calls, fallback_ops, "
        "parameters, downloads, seconds, verdict, message, library, model_type, revision, case_id "
        f"FROM v_models WHERE {where.sql}"
    )
    _summary(where)
    todo = "Add some to the profile and run `harness nightly`."
    table.show(
        sql,
        where.params,
        order=order,
        shown={
            "model_id": columns.text("model", pinned=True, width=240),
            **{str(stage): columns.outcome(str(stage), _STAGE_HELP, width=104) for stage in MODEL_STAGES},
            "device_share": columns.share("on device", "Share of its operator calls; copies left out"),
            "fallback_calls": columns.count("CPU calls", "Calls that fell back to the CPU"),
            "fallback_ops": columns.names("fell back", "Operators that fell back at least once"),
            "task": columns.text("task"),
            "architecture": columns.text("architecture"),
            "parameters": columns.compact("parameters"),
            "downloads": columns.compact("downloads"),
            "seconds": columns.seconds("time", "All stages together"),
        },
        name="models",
        what="model",
        opens=shell.open_model,
        height="content" if data.number(f"SELECT count(*) FROM ({sql})", *where.params) <= 22 else 800,
        empty=lambda: notices.nothing("model", narrowed=where.narrowed, todo=todo),
    )


def _filters(run: str, where: Where) -> str:
    """Show the filters, narrow the query by them, and return its order."""
    outcomes = columns.words(look.OUTCOMES)
    first = st.columns([3, 3, 3])
    search = first[0].text_input(
        "Search",
        key="q",
        bind="query-params",
        placeholder="name, task, architecture",
        icon=":material/search:",
    )
    tasks = first[1].multiselect("Task", _choices(run, "task"), key="task", bind="query-params")
    kinds = first[2].multiselect(
        "Architecture", _choices(run, "architecture"), key="architecture", bind="query-params"
    )
    second = st.columns([1.5, 3, 2, 1.6])
    stage = second[0].selectbox("Stage", [_ANY, *map(str, MODEL_STAGES)], key="stage", bind="query-params")
    chosen = second[1].multiselect(
        "Outcome",
        list(outcomes),
        key="outcome",
        bind="query-params",
        help="Of the chosen stage, or of any",
        placeholder="any",
    )
    fallback = second[2].selectbox("Fallback", [_ANY, "some", "none"], key="fallback", bind="query-params")
    order = second[3].selectbox("Sort by", list(_ORDERS), key="sort", bind="query-params")
    where.containing(search or "", "model_id", "task", "architecture", "model_type")
    where.among("task", tasks)
    where.among("architecture", kinds)
    _stage_filter(where, stage or _ANY, chosen)
    if fallback == "some":
        where.add("fallback_calls > 0")
    elif fallback == "none":
        where.add("fallback_calls = 0 AND device_calls > 0")
    return _ORDERS[order or "downloads"]


def _stage_filter(where: Where, stage: str, chosen: list[str]) -> None:
    if not chosen:
        return
    if stage != _ANY:
        where.among(f'"{stage}"', chosen)  # one of MODEL_STAGES, never what a reader typed
        return
    where.add(f"list_has_any(?, [{_STAGES}])", chosen)


def _choices(run: str, column: str) -> list[str]:
    return data.values(
        f"SELECT DISTINCT {column} FROM v_models WHERE run = ? AND {column} <> '' "
        f"ORDER BY {column} LIMIT 1000",
        run,
    )


def _summary(where: Where) -> None:
    """Of the models that the filters leave, how many pass everything, in one line."""
    found = data.row(
        "SELECT count(*) AS models, count(*) FILTER (outcome = 'passed') AS passed, "
        "count(*) FILTER (outcome = 'passed' AND fallback_calls = 0 AND device_calls > 0) AS clean, "
        "count(*) FILTER (NOT counts) AS uncounted "
        f"FROM v_models WHERE {where.sql}",
        *where.params,
    )
    if found is None or not found["models"]:
        return
    counted = found["models"] - found["uncounted"]
    said = (
        f"**{look.count(found['passed'])}** of {look.plural(counted, 'model')} pass every stage, "
        f"**{look.count(found['clean'])}** of them without a fallback."
    )
    if found["uncounted"]:
        said += f" {look.plural(found['uncounted'], 'model')} could not be judged and count for nothing."
    st.markdown(said)


page()
