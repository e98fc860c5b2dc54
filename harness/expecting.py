"""Keeping expectation files true: what a run would change in them, and what in them decides nothing."""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Sequence
from pathlib import Path

from harness import hub
from harness.errors import UsageError
from harness.gate import judge
from harness.planning import (
    collect_cases,
    dead_entries,
    expectation_files,
    packaged_expectations,
    torch_version,
)
from harness.profiles import Profile, stored_profile
from results.expectation_files import ExpectationError, read_text
from results.expectation_update import Edit, Result, Setting, Update, edits, work_out
from results.expectations import Entry, Finding, declare, load_expectations
from results.layout import run_path
from results.plan import Case, Declared, Plan, load_plan
from results.store import Store, open_store
from results.vocabulary import Category, Outcome, Stage

DEFAULT_FILE = "known.toml"
"""Where new entries go, in the folder of the device, if neither the command nor the profile names a file."""


@dataclasses.dataclass(frozen=True, slots=True)
class Proposal:
    """What an update would do."""

    update: Update
    edits: list[Edit]

    def write(self) -> None:
        """Put the new texts in place, each whole or not at all."""
        for edit in self.edits:
            edit.path.parent.mkdir(parents=True, exist_ok=True)
            beside = edit.path.with_name(f".{edit.path.name}.tmp")
            beside.write_text(edit.new, encoding="utf-8", newline="\n")
            beside.replace(edit.path)


def propose(
    store: Path,
    run: str,
    *,
    file: Path | None = None,
    category: Category | None = None,
    accept_regressions: bool = False,
    drop_globs: bool = False,
    today: datetime.date | None = None,
) -> Proposal:
    """Work out what a complete run says of the expectation files.

    Raises:
        UsageError: the run is not complete, or a file is wrong.
        StoreError: there is no such run.
    """
    with open_store(store) as reader:
        run = reader.resolve_run(run)
        state = reader.rows("v_completeness", run=run)[0]
        if not state["complete"]:
            raise UsageError(
                f"run {run} is not complete, and what it lacks may matter: {judge(reader, run).sentence}"
            )
        plan = load_plan(run_path(store, run))
        results = _results(reader, plan)
        torch = str((reader.rows("v_run_heads", run=run)[0]["environment"] or {}).get("torch", ""))
    try:
        files = files_of(plan)
        target = file or (files[-1] if _own(plan) else packaged_expectations(plan.device) / DEFAULT_FILE)
        known = _unique([*files, *([target] if target.exists() else [])])
        entries = load_expectations(known)
        setting = Setting(
            device=plan.device,
            torch=torch or torch_version(),
            today=today or datetime.date.today(),
            drop_globs=drop_globs,
            accept_regressions=accept_regressions,
            category=category,
        )
        update = work_out(results, entries, setting)
        return Proposal(update, edits(update, {path: read_text(path) for path in known}, target))
    except ExpectationError as error:
        raise UsageError(str(error)) from error


def files_of(plan: Plan) -> list[Path]:
    """The expectation files that a run was planned with: its device's and its profile's own."""
    return expectation_files(plan.device, _own(plan))


def _own(plan: Plan) -> list[str]:
    return [str(name) for name in plan.settings.get("expectations", ())]


def _unique(paths: Sequence[Path]) -> list[Path]:
    """Each file once, however it is named."""
    by_place: dict[str, Path] = {}
    for path in paths:
        by_place.setdefault(os.path.realpath(path), path)
    return list(by_place.values())


def selects_all(plan: Plan) -> bool:
    """Whether a run had every case that there is."""
    try:
        return stored_profile(plan.settings).selects_all
    except UsageError:  # a pytest run that was recorded, or a plan of another version
        return False


def _results(reader: Store, plan: Plan) -> list[Result]:
    """How each case of a run came out, and whether it passed in an earlier one of the device."""
    earlier = {row["case_id"] for row in reader.query_rows(_PASSED_BEFORE, [plan.run, plan.device])}
    flaked = {row["case_id"] for row in reader.rows("v_flakes", run=plan.run)}
    planned = {case.id: case for case in plan.cases}
    return [
        Result(
            case=dataclasses.replace(planned[row["case_id"]], declared=Declared()),
            outcome=Outcome(row["outcome"]),
            stage=Stage(row["stage"]),
            exception=row["exception"],
            message=row["message"],
            signature=row["signature"],
            flaked=row["case_id"] in flaked,
            passed_before=row["case_id"] in earlier,
        )
        for row in reader.rows("v_cases", run=plan.run)
    ]


_PASSED_BEFORE = """
WITH this AS (SELECT run, started FROM v_run_heads WHERE run = ?)
SELECT DISTINCT c.case_id
FROM v_cases c
JOIN v_run_heads r USING (run)
JOIN this t ON r.run <> t.run AND r.started <= t.started
WHERE r.device = ? AND c.outcome = 'passed'
"""


def findings(store: Path, profile: Profile, run: str | None) -> list[Finding]:
    """Entries that decide nothing: in a run's plan if one is named, else in what the profile selects now.

    Raises:
        UsageError: a file is wrong.
    """
    try:
        if run is not None:
            plan = load_plan(run_path(store, run))
            return _dead(load_expectations(files_of(plan)), plan.cases, plan.device)
        # The files first: what is wrong with them is known before anything is collected.
        entries = load_expectations(expectation_files(profile.device, profile.expectations))
        with hub.serve_for(profile, store) as endpoint:
            cases = collect_cases(profile, endpoint, lambda _: None, store=store)
        return _dead(entries, cases, profile.device)
    except ExpectationError as error:
        raise UsageError(str(error)) from error


def _dead(entries: Sequence[Entry], cases: Sequence[Case], device: str) -> list[Finding]:
    return dead_entries(declare(cases, entries, device, torch_version()), cases)
