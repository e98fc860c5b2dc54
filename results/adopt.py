"""Copies a run from elsewhere into a store, so that the store can be rebuilt from its own files."""

from __future__ import annotations

import filecmp
import os
import shutil
from pathlib import Path

from results.batch import ContradictionError, PlanMismatchError
from results.layout import run_path
from results.plan import EVENTS_DIR, PLAN_FILE, Plan, load_plan


def adopt(store: Path, run_folder: Path, plan: Plan) -> Path:
    """Bring plan and event logs of a run into the store, unless they lie there already.

    A log that the store has in part is completed; one that the store has and that differs is not
    touched.

    Raises:
        PlanMismatchError: the store has a run of this id with another plan.
        ContradictionError: a log differs from the one the store has under its name.
    """
    own = run_path(store, plan.run)
    if own.exists() and own.resolve() == run_folder.resolve():
        return own
    if (own / PLAN_FILE).exists() and load_plan(own).hash != plan.hash:
        raise PlanMismatchError(f"the store has another run with the id {plan.run!r}, by another plan")
    events = run_folder / EVENTS_DIR
    for log in sorted(events.rglob("*.jsonl")):
        _copy(log, own / EVENTS_DIR / log.relative_to(events))
    if not (own / PLAN_FILE).exists():
        own.mkdir(parents=True, exist_ok=True)
        _copy(run_folder / PLAN_FILE, own / PLAN_FILE)
    return own


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        if filecmp.cmp(source, target, shallow=False):
            return
        _refuse_unless_longer(source, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".tmp")
    shutil.copyfile(source, temporary)
    os.replace(temporary, target)


def _refuse_unless_longer(source: Path, target: Path) -> None:
    known = target.read_bytes()
    known = known[: known.rfind(b"\n") + 1]
    with source.open("rb") as file:
        if file.read(len(known)) != known:
            raise ContradictionError(f"{source} is not a continuation of {target}")
