"""``harness audit``: runs what a run skipped or is expected to fail anyway, and says what is still true.

Each case has a process of its own. Audits go to a store of their own below the run's, so that none stands
among nights; their results are kept, so that it can be said for how long a case has passed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness import hub
from harness.errors import UsageError
from harness.expecting import files_of, selects_all
from harness.nightly import Run, Setup, execute, usable_device
from harness.planning import dead_entries, new_run_id, torch_version
from harness.profiles import MODELS, Profile, stored_profile
from harness.pytest_sessions import AUDIT
from harness.sites import site
from results.audits import Answered, Observation, Subject, answer, ledger, raised_signature
from results.expectations import Declaration, Entry, ExpectationError, declare, load_expectations
from results.layout import CACHE_DIR, database_path, run_path
from results.plan import Case, Declared, Plan, load_plan, make_plan
from results.store import Store, open_store
from results.vocabulary import CaseKind, Expectation, Outcome, RunState

PROFILE = "audit"
_SKIPPED = (Outcome.SKIPPED_UPSTREAM, Outcome.SKIPPED_BACKEND)
_DECLARED = (Expectation.FAIL, Expectation.SKIP)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A finished audit.

    Attributes:
        run: its own run, ``None`` if there was nothing to run.
        audited: the run whose cases it ran.
        left_out: cases that a limit kept out.
        gone: entries that match no case any more, with why.
    """

    run: Run | None
    audited: str
    answers: tuple[Answered, ...]
    left_out: int
    gone: tuple[tuple[Entry, str], ...]

    @property
    def complete(self) -> bool:
        """Whether it came to its end."""
        return self.run is None or self.run.state is RunState.COMPLETE

    def rows(self, today: datetime.date | None = None) -> list[dict[str, Any]]:
        """The ledger: a row for each claim and what was found of it."""
        return ledger(self.answers, self.gone, today or datetime.date.today())


def audit_store(store: Path) -> Path:
    """The store of a store's audits."""
    return store / CACHE_DIR / "audit"


def audit(
    store: Path,
    run: str | None = None,
    *,
    pattern: str = "*",
    limit: int = 0,
    say: Callable[[str], None] = lambda _: None,
    quiet: bool = True,
) -> Audit:
    """Run every skipped and expected-to-fail case of a run, the latest if none is named.

    Args:
        pattern: glob over the ids of the cases to audit.
        limit: at most so many cases, those first whose last audit is longest ago; 0 is all.

    Raises:
        UsageError: the run cannot be run again, or an expectation file is wrong.
        HarnessError: the device or the hub cannot be used.
    """
    store = store.resolve()
    with open_store(store) as reader:
        run = reader.resolve_run(run)
        plan = load_plan(run_path(store, run))
        try:
            entries = load_expectations(files_of(plan))
            declaration = declare(plan.cases, entries, plan.device, torch_version())
        except ExpectationError as error:
            raise UsageError(str(error)) from error
        subjects = [s for s in _subjects(reader, plan, declaration) if fnmatchcase(s.case, pattern)]
    own = audit_store(store)
    chosen = _chosen(subjects, own, plan.device, limit)
    say(f"{len(chosen)} of {len(subjects)} skipped and expected-to-fail cases of run {run} are run anyway")
    finished = _run(plan, chosen, store, quiet=quiet) if chosen else None
    return Audit(
        run=finished,
        audited=run,
        answers=tuple(_answers(chosen, finished)),
        left_out=len(subjects) - len(chosen),
        gone=_gone(declaration, plan) if pattern == "*" else (),
    )


def _subjects(reader: Store, plan: Plan, declaration: Declaration) -> list[Subject]:
    """What is audited, by id."""
    stages = {row["case_id"]: row for row in reader.query_rows(_DECIDING, [plan.run])}
    found = []
    for case in plan.cases:
        row = stages[case.id]
        entry = declaration.entries.get(case.id)
        if entry is not None and entry.expectation in _DECLARED:
            found.append(_declared(case, entry, row))
        elif row["outcome"] in _SKIPPED:
            found.append(_skipped(case, row))
    return found


def _declared(case: Case, entry: Entry, row: Mapping[str, Any]) -> Subject:
    known = entry.signature or row["signature"] or ""
    return Subject(case=case.id, entry=entry, reason=entry.reason, location=entry.source, known=known)


def _skipped(case: Case, row: Mapping[str, Any]) -> Subject:
    facts = row["facts"] or {}
    return Subject(
        case=case.id,
        entry=None,
        reason=row["message"],
        location=facts.get("location", ""),
        known=raised_signature(facts.get("raised", "")),
    )


_DECIDING = """
SELECT c.case_id, c.outcome, c.message, c.signature, s.facts
FROM v_cases c
JOIN v_stages s USING (run, case_id, stage)
WHERE c.run = ?
"""


def _chosen(subjects: Sequence[Subject], own: Path, device: str, limit: int) -> list[Subject]:
    """All, or as many as the limit allows, those first that were audited longest ago or never."""
    if not limit or len(subjects) <= limit:
        return list(subjects)
    last: dict[str, datetime.datetime] = {}
    if database_path(own).exists():
        with open_store(own) as reader:
            rows = reader.query_rows(_LAST_AUDIT, [device])
        last = {row["case_id"]: row["time"] for row in rows}
    return sorted(subjects, key=lambda s: (last.get(s.case, datetime.datetime.min), s.case))[:limit]


_LAST_AUDIT = """
SELECT c.case_id, max(r.started) AS time
FROM v_cases c JOIN v_run_heads r USING (run)
WHERE r.device = ? AND c.attempts > 0
GROUP BY c.case_id
"""


def _run(plan: Plan, subjects: Sequence[Subject], store: Path, *, quiet: bool) -> Run:
    """Run the cases, each in a process of its own."""
    wanted = {subject.case for subject in subjects}
    cases = [_lifted(case) for case in plan.cases if case.id in wanted]
    profile = _isolating(plan, cases)
    own = audit_store(store)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(site(profile))
        description = usable_device(place, plan.device)
        endpoint = stack.enter_context(hub.serve_for(profile, store, place.host))
        audit_plan = make_plan(
            run=new_run_id(own, plan.device),
            device=plan.device,
            profile=PROFILE,
            cases=cases,
            settings=profile.settings(),
        )
        models = hub.model_settings(profile, endpoint, store, place.host)
        return execute(audit_plan, Setup(description, profile, own, models, place, quiet))


def _lifted(case: Case) -> Case:
    """The case as one of which nothing is declared."""
    if case.kind is not CaseKind.PYTEST:
        return dataclasses.replace(case, declared=Declared())
    if "nodeid" not in case.spec:
        raise UsageError(
            "the run was recorded by pytest, not run by the harness, and cannot be run again; "
            "audit one of `harness nightly --suites pytest`"
        )
    return dataclasses.replace(case, declared=Declared(), spec={**case.spec, AUDIT: True})


def _isolating(plan: Plan, cases: Sequence[Case]) -> Profile:
    """The run's profile, with one case a process and nothing repeated; models only where there are any."""
    profile = stored_profile(plan.settings)
    suites = [name for name in profile.suites if name != MODELS]
    if any(case.kind is CaseKind.MODEL for case in cases):
        suites.append(MODELS)
    return dataclasses.replace(
        profile,
        name=PROFILE,
        suites=tuple(suites),
        batch=1,
        upstream_batch=1,
        attempts=1,
        max_reruns=0,
        max_bisections=0,
    )


def _answers(subjects: Sequence[Subject], run: Run | None) -> list[Answered]:
    """Judge each case by this audit and by those before it."""
    if run is None:
        return []
    with open_store(run.store) as reader:
        device = reader.rows("v_run_heads", run=run.id)[0]["device"]
        now = {row["case_id"] for row in reader.rows("v_cases", run=run.id) if row["attempts"]}
        seen: dict[str, list[Observation]] = {}
        for row in reader.query_rows(_OBSERVED, [device, run.id]):
            seen.setdefault(row["case_id"], []).append(_observation(row))
    return [answer(subject, seen[subject.case] if subject.case in now else ()) for subject in subjects]


def _observation(row: Mapping[str, Any]) -> Observation:
    return Observation(
        case=row["case_id"],
        time=row["started"],
        outcome=Outcome(row["outcome"]),
        exception=row["exception"],
        message=row["message"],
        signature=row["signature"],
        facts=row["facts"] or {},
    )


_OBSERVED = """
WITH this AS (SELECT case_id FROM v_cases WHERE run = $2)
SELECT c.case_id, r.started, c.outcome, c.exception, c.message, c.signature, s.facts
FROM v_cases c
JOIN this USING (case_id)
JOIN v_run_heads r USING (run)
JOIN v_stages s ON s.run = c.run AND s.case_id = c.case_id AND s.stage = c.stage
WHERE r.device = $1 AND c.attempts > 0
ORDER BY r.started DESC, r.run DESC
"""


def _gone(declaration: Declaration, plan: Plan) -> tuple[tuple[Entry, str], ...]:
    """Entries without a case; only a run of everything, or of all tests of the same file, can tell."""
    whole = selects_all(plan)
    filtered = plan.settings.get("test_filter", "*") != "*"
    files = {_file(case.id) for case in plan.cases if case.kind is CaseKind.PYTEST}
    unmatched = {id(finding.entry) for finding in declaration.unmatched}
    return tuple(
        (finding.entry, finding.why + (f"; the nearest is {finding.nearest}" if finding.nearest else ""))
        for finding in dead_entries(declaration, plan.cases)
        if id(finding.entry) in unmatched
        and (whole or (not filtered and _file(finding.entry.pattern) in files))
    )


def _file(case: str) -> str:
    return "::".join(case.split("::")[:2])
