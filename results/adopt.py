"""Copies a run from elsewhere into a store, so that the store can be rebuilt from its own files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from results.batch import ContradictionError, PlanMismatchError
from results.layout import run_path
from results.logs import PART, EventLogError, content, find_log, log_files, open_log
from results.plan import EVENTS_DIR, PLAN_FILE, Plan, load_plan


def adopt(store: Path, run_folder: Path, plan: Plan) -> Path:
    """Bring plan and event logs of a run into the store, unless they lie there already.

    A log that the store has in part is completed; one that the store has and that differs is not
    touched.

    Raises:
        PlanMismatchError: the store has a run of this id with another plan.
        ContradictionError: a log is damaged, or differs from the one the store has under its name.
    """
    own = run_path(store, plan.run)
    if own.exists() and own.resolve() == run_folder.resolve():
        return own
    if (own / PLAN_FILE).exists() and load_plan(own).hash != plan.hash:
        raise PlanMismatchError(f"the store has another run with the id {plan.run!r}, by another plan")
    events = run_folder / EVENTS_DIR
    for name, log in log_files(events).items():
        try:
            _copy_log(log, own / EVENTS_DIR / name)
        except EventLogError as error:
            raise ContradictionError(str(error)) from error
    if not (own / PLAN_FILE).exists():
        own.mkdir(parents=True, exist_ok=True)
        _copy(run_folder / PLAN_FILE, own / PLAN_FILE)
    return own


def _copy_log(source: Path, target: Path) -> None:
    held = find_log(target)
    if held is not None:
        known, given = content(held), content(source)
        if known == given:
            return
        if content(source, known.whole).sha256 != content(held, known.whole).sha256:
            raise ContradictionError(f"{source} is not a continuation of {held}")
    _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + PART)
    with open_log(source) as file, temporary.open("wb") as copy:
        shutil.copyfileobj(file, copy)
    os.replace(temporary, target)
