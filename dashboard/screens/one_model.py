"""One model: its stages, what went wrong, its operators, and how it did in earlier runs."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import case_parts, columns, data, look, shell, table
from results.vocabulary import MODEL_STAGES

_RUNS = 30


def page() -> None:
    """The page; the model is named by ``?model=``."""
    run, model = shell.shown_run(), st.query_params.get("model", "")
    shell.back(shell.MODELS, "Models")
    if not model:
        st.title("Model")
        st.info("The address names no model: pick one on the Models page.", icon=":material/info:")
        return
    st.title(look.plain(model))
    found = data.rows(
        "SELECT * FROM v_models WHERE run = ? AND model_id = ? ORDER BY revision LIMIT 20", run, model
    )
    if found:
        _facts(_revision(found))
    else:
        st.info(f"Run {look.plain(run)} did not plan this model.", icon=":material/info:")
    _history(model)


def _revision(found: data.Rows) -> dict[str, Any]:
    """The row to show: a run may hold several revisions of one model."""
    if len(found) == 1:
        return found[0]
    revisions = [item["revision"] for item in found]
    chosen = st.selectbox("Revision", revisions, key="revision", bind="query-params")
    return next(item for item in found if item["revision"] == chosen)


def _facts(model: dict[str, Any]) -> None:
    run, case = model["run"], model["case_id"]
    verdict = look.VERDICTS[model["verdict"]]
    known = [look.plain(model[name]) for name in ("task", "architecture", "library") if model[name]]
    if model["parameters"] is not None:
        known.append(f"{look.compact(model['parameters'])} parameters")
    if model["downloads"] is not None:
        known.append(f"{look.compact(model['downloads'])} downloads")
    known.append(f"revision {look.plain(model['revision'], 12)}")
    st.markdown(f":{verdict.badge}-badge[{verdict.text}]  " + "  ·  ".join(known))
    stages = case_parts.stages(run, case)
    case_parts.stage_cards(stages)
    case_parts.troubles(stages)
    case_parts.attempts(run, case)
    calls = model["device_calls"] + model["fallback_calls"]
    if calls:
        fell_back = look.plural(len(model["fallback_ops"]), "operator")
        st.markdown(
            f"**{look.share(model['device_share'])}** of its {look.plural(calls, 'operator call')} ran on "
            f"the device; {look.plural(model['fallback_calls'], 'call')} to {fell_back} fell back. "
            "Copies are left out."
        )
    case_parts.ops(run, case)
    case_parts.measurements(stages)


def _history(model: str) -> None:
    st.subheader("Over the runs")
    table.show(
        'SELECT m.run, r.started, m."fetch", m.load, m.forward, m.backward, m.compile, m.device_share, '
        "m.fallback_calls, m.seconds, m.revision, m.message FROM v_models m JOIN v_run_heads r USING (run) "
        "WHERE m.model_id = ?",
        [model],
        order="started DESC NULLS LAST, run, revision",
        shown={
            "started": columns.moment("started (UTC)"),
            "run": columns.text("run", width=170),
            **{str(stage): columns.outcome(str(stage), width=104) for stage in MODEL_STAGES},
            "device_share": columns.share("on device"),
            "fallback_calls": columns.count("CPU calls"),
            "seconds": columns.seconds("time"),
        },
        name="model_history",
        what="run",
        limit=_RUNS,
        empty=lambda: st.info("No run in this store planned it.", icon=":material/info:"),
    )


page()
