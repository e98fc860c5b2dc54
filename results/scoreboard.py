"""What a night says, as one typed record, read from views only."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from pathlib import Path

from results.collected import Drop, drops
from results.common_failure import CommonFailure, common_failure
from results.skips import Balance, read_balance
from results.store import Store
from results.vocabulary import FATES, Fate

NOT_REPRODUCIBLE = "not reproducible"


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """A share that never hides what it is a share of."""

    numerator: int
    denominator: int

    @property
    def share(self) -> float | None:
        """Between 0 and 1, or ``None`` where there is nothing to have a share of."""
        return self.numerator / self.denominator if self.denominator else None

    def __str__(self) -> str:
        share = self.share
        counts = f"{self.numerator:,} of {self.denominator:,}"
        return counts if share is None else f"{counts} ({percent(self.numerator, self.denominator)})"


def percent(numerator: int, denominator: int) -> str:
    """One decimal; only all of them are 100.0% and only none of them are 0.0%, whatever rounding says."""
    tenths = round(1000 * numerator / denominator)
    if 0 < numerator < denominator:
        tenths = min(max(tenths, 1), 999)
    return f"{tenths / 10:.1f}%"


@dataclasses.dataclass(frozen=True, slots=True)
class StageRow:
    """How many models pass a stage, of those that could be judged."""

    stage: str
    passed: Rate
    downloads: Rate
    planned: int


@dataclasses.dataclass(frozen=True, slots=True)
class SuiteRow:
    """How the cases of a suite came out; ``outcomes`` add up to ``planned``."""

    suite: str
    kind: str
    planned: int
    passed: Rate
    outcomes: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class CheckRow:
    """How one check of one of torch's lists came out; the rest of ``planned`` has no result."""

    list: str
    check: str
    planned: int
    passed: Rate
    failed: int
    unsupported: int
    skipped: int


@dataclasses.dataclass(frozen=True, slots=True)
class ShareRow:
    """Op calls that ran on the device, of all calls to computing ops."""

    kind: str
    calls: Rate
    movement_calls: int
    bytes_moved: int


@dataclasses.dataclass(frozen=True, slots=True)
class OpRoutes:
    """Distinct operators by where they ran."""

    device_only: int
    both: int
    fallback_only: int
    ops: int


@dataclasses.dataclass(frozen=True, slots=True)
class GapRow:
    """An operator that fell back to the CPU."""

    rank: int
    op: str
    models: int
    downloads: int
    tests: int
    fallback_calls: int
    fallback_ns: int
    dtypes: tuple[str, ...]
    example_models: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class FailureRow:
    """Equal failures."""

    signature: str
    cases: int
    outcome: str
    exception: str
    message: str
    stage: str
    example_case: str


@dataclasses.dataclass(frozen=True, slots=True)
class FlakeRow:
    """A case that passed in one attempt and failed in another.

    Attributes:
        outcomes: of its attempts, in order.
        disturbed_by: the cases after which it fails in one process, if that was found.
        experiments: processes in which that was searched.
    """

    case: str
    outcomes: tuple[str, ...]
    disturbed_by: tuple[str, ...]
    experiments: int

    @property
    def cause(self) -> tuple[str, ...]:
        """Who disturbs it, or that nobody could be shown to; empty if nothing was searched."""
        if self.disturbed_by or not self.experiments:
            return self.disturbed_by
        return (f"{NOT_REPRODUCIBLE} in {self.experiments} experiments",)


@dataclasses.dataclass(frozen=True, slots=True)
class DeathRow:
    """Worker processes that died in one way, with the first that was in a case."""

    fate: str
    meaning: str
    deaths: int
    example_worker: str
    example_case: str
    example_stage: str


@dataclasses.dataclass(frozen=True, slots=True)
class Scoreboard:
    """One run, as it is printed."""

    run: str
    device: str
    profile: str
    state: str
    reason: str
    started: datetime.datetime | None
    ended: datetime.datetime | None
    seconds: float | None
    harness_version: str
    plan_hash: str
    environment: Mapping[str, str]
    planned: int
    with_result: int
    missing: int
    complete: bool
    refused_logs: int
    refused_why: str
    missing_reasons: Mapping[str, int]
    funnel: tuple[StageRow, ...]
    suites: tuple[SuiteRow, ...]
    checks: tuple[CheckRow, ...]
    verdicts: Mapping[str, int]
    device_share: tuple[ShareRow, ...]
    op_routes: OpRoutes
    gaps: tuple[GapRow, ...]
    failures: tuple[FailureRow, ...]
    common_failure: CommonFailure | None
    resumes: int
    flaky_cases: int
    flakes: tuple[FlakeRow, ...]
    deaths: tuple[DeathRow, ...]
    skips: Balance
    drops: tuple[Drop, ...]
    database: Path

    @property
    def worker_deaths(self) -> int:
        """How many worker processes died, whatever their fate."""
        return sum(row.deaths for row in self.deaths)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What stands first wherever numbers of this run are shown."""
        return tuple(filter(None, (self.banner, self.skips.warning)))

    @property
    def banner(self) -> str:
        """What must be said before any number of this run; ``""`` of a complete run of a working device."""
        found = f"INFRASTRUCTURE: {self.common_failure.sentence}" if self.common_failure else ""
        return ". ".join(part for part in (found, self.incompleteness) if part)

    @property
    def incompleteness(self) -> str:
        """What the run lacks; ``""`` if it is complete."""
        if self.complete:
            return ""
        parts = []
        if self.missing:
            verb = "has" if self.missing == 1 else "have"
            parts.append(f"{self.missing} of {self.planned} cases {verb} no result")
        if self.refused_logs:
            parts.append(f"{self.refused_logs} event log(s) refused, first {self.refused_why}")
        if self.state != "complete":
            state = "the run is still going" if self.state == "running" else f"the run ended {self.state}"
            parts.append(state + (f": {self.reason}" if self.reason else ""))
        return "INCOMPLETE: " + "; ".join(parts)


def scoreboard(
    store: Store, run: str | None = None, *, gaps: int = 5, failures: int = 5, flakes: int = 5
) -> Scoreboard:
    """Read the scoreboard of a run, the latest if none is named; its lists hold the first so many.

    Raises:
        StoreError: the store has no such run.
    """
    run = store.resolve_run(run)
    head = store.rows("v_runs", run=run)[0]
    state = store.rows("v_completeness", run=run)[0]
    flaky = _flakes(store, run)
    return Scoreboard(
        run=run,
        device=head["device"],
        profile=head["profile"],
        state=state["state"],
        reason=state["reason"],
        started=head["started"],
        ended=head["ended"],
        seconds=head["seconds"],
        harness_version=head["harness_version"],
        plan_hash=head["plan_hash"],
        environment=head["environment"] or {},
        planned=state["planned"],
        with_result=state["with_result"],
        missing=state["missing"],
        complete=state["complete"],
        refused_logs=state["refused_logs"],
        refused_why=state["refused_why"],
        missing_reasons={row["reason"]: row["cases"] for row in store.rows("v_missing", run=run)},
        funnel=_funnel(store, run),
        suites=_suites(store, run),
        checks=_checks(store, run),
        verdicts={row["verdict"]: row["cases"] for row in store.rows("v_verdicts", run=run)},
        device_share=_shares(store, run),
        op_routes=_routes(store, run),
        gaps=read_gaps(store, run, limit=gaps),
        failures=_failures(store, run)[:failures],
        common_failure=common_failure(store, run),
        resumes=head["resumes"],
        flaky_cases=len(flaky),
        flakes=flaky[:flakes],
        deaths=_deaths(store, run),
        skips=read_balance(store, run),
        drops=drops(store, run),
        database=store.database.resolve(),
    )


def read_gaps(store: Store, run: str, *, limit: int | None = None) -> tuple[GapRow, ...]:
    """The ops of a run that fell back, the most wanted first."""
    return tuple(
        GapRow(
            rank=row["rank"],
            op=row["op"],
            models=row["models"],
            downloads=row["downloads"],
            tests=row["tests"],
            fallback_calls=row["fallback_calls"],
            fallback_ns=row["fallback_ns"],
            dtypes=tuple(row["dtypes"]),
            example_models=tuple(row["example_models"]),
        )
        for row in store.rows("v_gaps", run=run)[:limit]
    )


def _routes(store: Store, run: str) -> OpRoutes:
    found = store.rows("v_op_routes", run=run)
    if not found:
        return OpRoutes(0, 0, 0, 0)
    row = found[0]
    return OpRoutes(row["device_only"], row["both"], row["fallback_only"], row["ops"])


def _failures(store: Store, run: str) -> tuple[FailureRow, ...]:
    return tuple(
        FailureRow(
            signature=row["signature"],
            cases=row["cases"],
            outcome=row["outcome"],
            exception=row["exception"],
            message=row["message"],
            stage=row["stage"],
            example_case=row["example_case"],
        )
        for row in store.rows("v_failures", run=run)
    )


def _flakes(store: Store, run: str) -> tuple[FlakeRow, ...]:
    return tuple(
        FlakeRow(row["case_id"], tuple(row["outcomes"]), tuple(row["disturbed_by"]), row["experiments"])
        for row in store.rows("v_flakes", run=run)
    )


def _deaths(store: Store, run: str) -> tuple[DeathRow, ...]:
    return tuple(
        DeathRow(
            fate=row["fate"],
            meaning=FATES[Fate(row["fate"])],
            deaths=row["deaths"],
            example_worker=row["example_worker"],
            example_case=row["example_case"],
            example_stage=row["example_stage"],
        )
        for row in store.rows("v_deaths", run=run)
    )


def _funnel(store: Store, run: str) -> tuple[StageRow, ...]:
    return tuple(
        StageRow(
            stage=row["stage"],
            passed=Rate(row["passed"], row["counted"]),
            downloads=Rate(row["passed_downloads"], row["counted_downloads"]),
            planned=row["planned"],
        )
        for row in store.rows("v_funnel", run=run)
    )


def _suites(store: Store, run: str) -> tuple[SuiteRow, ...]:
    outcomes: dict[str, dict[str, int]] = {}
    for row in store.rows("v_outcomes", run=run):
        outcomes.setdefault(row["suite"], {})[row["outcome"]] = row["cases"]
    return tuple(
        SuiteRow(
            suite=row["suite"],
            kind=row["kind"],
            planned=row["planned"],
            passed=Rate(row["passed"], row["counted"]),
            outcomes=outcomes[row["suite"]],
        )
        for row in store.rows("v_suites", run=run)
    )


def _checks(store: Store, run: str) -> tuple[CheckRow, ...]:
    return tuple(
        CheckRow(
            list=row["list"],
            check=row["check_name"],
            planned=row["planned"],
            passed=Rate(row["passed"], row["counted"]),
            failed=row["failed"],
            unsupported=row["unsupported"],
            skipped=row["skipped"],
        )
        for row in store.rows("v_checks", run=run)
    )


def _shares(store: Store, run: str) -> tuple[ShareRow, ...]:
    return tuple(
        ShareRow(
            kind=row["kind"],
            calls=Rate(row["device_calls"], row["device_calls"] + row["fallback_calls"]),
            movement_calls=row["movement_calls"],
            bytes_moved=row["bytes_moved"],
        )
        for row in store.rows("v_device_share", run=run)
    )
