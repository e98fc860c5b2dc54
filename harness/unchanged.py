"""Work that is not redone: results of earlier runs of the same model, software and device build."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.evidence import CACHED_FROM, runs, write_log
from harness.profiles import Profile
from results.events import Ended, Event, OpCall, OpsRecorded
from results.layout import StoreError, database_path, run_path
from results.plan import EVENTS_DIR, Case, load_plan
from results.store import Store, open_store
from results.vocabulary import CaseKind, Evidence, Outcome, Stage

CACHED_LOG = "cached"

CONCLUSIVE = (
    Outcome.PASSED,
    Outcome.FAILED_NUMERIC,
    Outcome.FAILED_EXCEPTION,
    Outcome.UNSUPPORTED,
    Outcome.SKIPPED_UPSTREAM,
    Outcome.VACUOUS,
)
"""Outcomes that the same software comes to again; what a machine or a network had a part in is run again."""

SCHEMA = "schema"
"""Key of the environment: version of the records, so that a result means the same."""

_SAME = ("device", "compile_backend", "harness", SCHEMA, "package.torch", "package.transformers")
_SAME_SETTINGS = ("seed", "max_model_bytes")
_RUNS = 30
_CHUNK = 500


def identity(environment: Mapping[str, str]) -> dict[str, str]:
    """What of an environment decides a result: the device's build, torch, transformers, the harness."""
    return {key: text for key, text in environment.items() if key in _SAME or key.startswith("device.")}


def sources(
    cases: list[Case], profile: Profile, store: Path, environment: Mapping[str, str]
) -> dict[str, str]:
    """The run whose result of a case still holds, by id of the case; models that would run only."""
    able = [case for case in cases if case.kind is CaseKind.MODEL and runs(case)]
    if not able or not database_path(store).exists():
        return {}
    try:
        with open_store(store) as reader:
            known = _known(reader, profile, identity(environment))
    except StoreError:  # of an older schema, or damaged: the writer says so when the run is ingested
        return {}
    return {case.id: known[case.id] for case in able if case.id in known}


def _known(store: Store, profile: Profile, same: Mapping[str, str]) -> dict[str, str]:
    """The latest run with a result that holds, by case: its id has the revision, which fixes the class."""
    candidates = [
        row["run"]
        for row in store.query_rows(_RUNS_SQL, [profile.device, _RUNS])
        if all(identity(_mapping(one)) == same for one in row["environments"])
        and _same_settings(row["settings"], profile)
    ]
    found: dict[str, str] = {}
    for run in candidates:  # the latest first
        for row in store.query_rows(_RESULTS_SQL, [run, [*CONCLUSIVE]]):
            found.setdefault(row["case_id"], run)
    return found


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value)


def _same_settings(settings: str, profile: Profile) -> bool:
    said = json.loads(settings)
    return all(said.get(name) == getattr(profile, name) for name in _SAME_SETTINGS)


_RUNS_SQL = """
SELECT r.run, r.settings, list(s.environment) AS environments
FROM runs r
JOIN run_starts s USING (run)
WHERE r.device = ?
GROUP BY r.run, r.settings
ORDER BY min(s.time) DESC, r.run DESC
LIMIT ?
"""

# A case that was attempted more than once and passed in the end is a flake, and runs again.
_RESULTS_SQL = """
WITH ran AS (
    SELECT r.case_id, r.attempt, r.stage, r.outcome
    FROM stage_results r
    JOIN models m USING (run, case_id)
    WHERE r.run = $1 AND r.evidence = 'ran'
), last AS (
    SELECT case_id, max(attempt) AS attempt FROM ran GROUP BY case_id
)
SELECT l.case_id
FROM last l
JOIN ran USING (case_id, attempt)
GROUP BY l.case_id, l.attempt
HAVING bool_and(list_contains($2, ran.outcome))
    AND (bool_or(ran.outcome <> 'passed') OR (count(*) = 5 AND l.attempt = 1))
"""


def write_cached(store: Path, run: str) -> None:
    """Write the results that a run takes from earlier ones into its logs, op calls too; once.

    Raises:
        UsageError: an earlier run is no longer in the store.
    """
    folder = run_path(store, run)
    log = folder / EVENTS_DIR / f"{CACHED_LOG}.jsonl"
    cases = [case for case in load_plan(folder).cases if CACHED_FROM in case.spec]
    if not cases or log.exists():
        return
    with open_store(store) as reader:
        write_log(log, _events(reader, cases))


def _events(store: Store, cases: Sequence[Case]) -> Iterator[Event]:
    by_run: dict[str, list[str]] = {}
    for case in cases:
        by_run.setdefault(str(case.spec[CACHED_FROM]), []).append(case.id)
    for source, ids in sorted(by_run.items()):
        for start in range(0, len(ids), _CHUNK):
            yield from _of_run(store, source, ids[start : start + _CHUNK])


def _of_run(store: Store, source: str, ids: list[str]) -> Iterator[Event]:
    calls: dict[tuple[str, str], list[OpCall]] = {}
    for row in store.query_rows(_CALLS_SQL, [source, ids]):
        place = (row.pop("case_id"), row.pop("stage"))
        calls.setdefault(place, []).append(OpCall(**row))
    found = store.query_rows(_ENDS_SQL, [source, ids])
    if missing := set(ids) - {row["case_id"] for row in found}:
        raise UsageError(
            f"the result of {min(missing)} was to be taken from run {source}, which the store no longer has; "
            "plan the night again"
        )
    for row in found:
        stage = Stage(row["stage"])
        if recorded := calls.get((row["case_id"], stage)):
            yield OpsRecorded(case=row["case_id"], attempt=1, stage=stage, calls=tuple(recorded))
        yield Ended(
            case=row["case_id"],
            attempt=1,
            stage=stage,
            outcome=Outcome(row["outcome"]),
            seconds=0.0,
            exception=row["exception"],
            message=row["message"],
            traceback=row["traceback"],
            metrics=_mapping(row["metrics"]),
            facts={name: text for name, text in _mapping(row["facts"]).items() if name != "worker"},
            evidence=Evidence.CACHED,
            evidence_from=source,
        )


_ENDS_SQL = """
SELECT s.case_id, s.stage, s.outcome, s.exception, s.message, s.traceback, s.metrics, s.facts
FROM v_stages s
WHERE s.run = ? AND list_contains(?, s.case_id) AND s.recorded
ORDER BY s.case_id, s.ordinal
"""

_CALLS_SQL = """
SELECT
    case_id, stage, called, executed, dtype, device_calls, fallback_calls, device_ns, fallback_ns, bytes_moved
FROM v_op_calls
WHERE run = ? AND list_contains(?, case_id)
"""
