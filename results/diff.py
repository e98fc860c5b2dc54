"""What changed from one run to another, as one typed record, read from the macros of ``views_7_diff.sql``.

Each case of either run lies in exactly one class (:mod:`results.changes`). A case without a result in one of
the two says nothing: it is neither removed nor fixed nor regressed. A model whose commit changed is one case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from results.changes import CHANGES, Change
from results.scoreboard import Rate, scoreboard
from results.store import Store, StoreError

EXAMPLES = 5
"""Cases of a class, and signatures, that are named unless more are asked for."""

CASES = "SELECT * FROM diff_cases(?, ?)"
CLASSES = "SELECT * FROM diff_classes(?, ?)"
ENVIRONMENT = "SELECT name, before, after, ordinal FROM diff_environment(?, ?)"
FAILURES = "SELECT * FROM diff_failures(?, ?)"
"""What a diff is read by; the parameters are the two runs."""

MACROS = ("diff_cases", "diff_classes", "diff_environment", "diff_failures")
"""The names of them, all of which a store has to have."""

_ORDER = "downloads DESC NULLS LAST, case_id"


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs.

    Attributes:
        warnings: what must be said before any number of it: that it is incomplete, or its device down.
    """

    run: str
    device: str
    profile: str
    planned: int
    missing: int
    complete: bool
    warnings: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """A fact of the environment, or a setting, that is not the same; ``None`` where a run has none."""

    name: str
    before: str | None
    after: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """A case of a class. ``before_id`` differs from ``case`` where a model's commit changed."""

    case: str
    before_id: str | None
    before: str
    after: str
    message: str
    downloads: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class ClassRow:
    """A class: how many cases, of how many that could have come into it, and a few of them.

    Attributes:
        cases: of those that its rule names (``CHANGES``).
        models: models among them, of the models of either run.
        downloads: of those models, of the downloads of the models of either run; known ones only.
        failed_after: of its cases, those that fail in the later run.
        suites: its cases by suite.
    """

    change: Change
    cases: Rate
    models: Rate
    downloads: Rate
    failed_after: int
    suites: Mapping[str, int]
    examples: tuple[Example, ...]


_NO_EXAMPLES: Mapping[str, tuple[Example, ...]] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """Equal failures of the later run among the cases of one class."""

    change: Change
    signature: str
    cases: int
    models: int
    downloads: int
    outcome: str
    stage: str
    exception: str
    message: str
    example_case: str


@dataclasses.dataclass(frozen=True, slots=True)
class Diff:
    """Two runs compared.

    Attributes:
        cases: of either run.
        both: of them, those that both planned.
        worse: cases that a gate counts.
        classes: every class, also those without a case, in the order of ``Change``.
        clusters: the first failures of the later run that the earlier one had not, by signature.
        cluster_count: how many there are.
    """

    before: Side
    after: Side
    environment: tuple[Difference, ...]
    cases: int
    both: int
    worse: int
    classes: tuple[ClassRow, ...]
    clusters: tuple[Cluster, ...]
    cluster_count: int

    @property
    def warnings(self) -> tuple[str, ...]:
        """What stands first: a run that is incomplete, or of which a device was down."""
        return tuple(
            f"Run {side.run}: {said}" for side in (self.before, self.after) for said in side.warnings
        )

    @property
    def changed(self) -> int:
        """Cases that are not unchanged."""
        return sum(row.cases.numerator for row in self.classes if row.change is not Change.UNCHANGED)

    def of(self, change: Change) -> ClassRow:
        """The row of a class."""
        return next(row for row in self.classes if row.change is change)


def read_diff(
    store: Store, before: str | None = None, after: str | None = None, *, examples: int = EXAMPLES
) -> Diff:
    """Compare two runs.

    Args:
        store: where both are.
        before: names the earlier one (:mod:`results.selectors`; default: the one before ``after``).
        after: names the later one (default: the latest).
        examples: at most so many cases of a class, and signatures.

    Raises:
        StoreError: there is no such run, or the store is of an older harness.
    """
    before, after = resolve_pair(store, before, after)
    check_comparable(store)
    pair = [before, after]
    counted = store.query_rows(CLASSES, pair)
    clusters = store.query_rows(
        f"SELECT *, count(*) OVER () AS total FROM ({FAILURES}) "
        "ORDER BY cases DESC, downloads DESC, class, signature LIMIT ?",
        [*pair, examples],
    )
    return Diff(
        before=_side(store, before),
        after=_side(store, after),
        environment=tuple(
            Difference(row["name"], row["before"], row["after"])
            for row in store.query_rows(f"{ENVIRONMENT} ORDER BY ordinal, name", pair)
        ),
        cases=_sum(counted, "cases"),
        both=_sum(counted, "planned_before") + _sum(counted, "planned_after") - _sum(counted, "cases"),
        worse=_sum(counted, "worse"),
        classes=class_rows(counted, _examples(store, before, after, examples)),
        clusters=tuple(_cluster(row) for row in clusters),
        cluster_count=clusters[0]["total"] if clusters else 0,
    )


def resolve_pair(store: Store, before: str | None, after: str | None) -> tuple[str, str]:
    """The ids of the two runs that are named; ``previous`` is the one before the other of the two.

    Raises:
        StoreError: there is no such run, or each is to be the one before the other.
    """
    before, after = before or "previous", after or "latest"
    if before == after == "previous":
        raise StoreError("each run would be the one before the other; name one of them")
    if after == "previous":
        before = store.resolve_run(before)
        return before, store.resolve_run(after, beside=before)
    after = store.resolve_run(after)
    return store.resolve_run(before, beside=after), after


def check_comparable(store: Store) -> None:
    """Refuse a store whose last writer did not know how to compare runs.

    Raises:
        StoreError: it says what to do.
    """
    known = store.query_rows(
        "SELECT count(*) AS n FROM (SELECT DISTINCT function_name FROM duckdb_functions() "
        "WHERE database_name = 'store' AND list_contains(?, function_name))",
        [list(MACROS)],
    )
    if known[0]["n"] < len(MACROS):
        raise StoreError(
            f"{store.database} was written by an older harness and cannot compare runs; "
            "run `harness ingest --rebuild`"
        )


def _side(store: Store, run: str) -> Side:
    board = scoreboard(store, run, gaps=0, failures=0, flakes=0)
    return Side(
        run=run,
        device=board.device,
        profile=board.profile,
        planned=board.planned,
        missing=board.missing,
        complete=board.complete,
        warnings=(board.banner,) if board.banner else (),
    )


def _sum(rows: Sequence[Mapping[str, Any]], column: str) -> int:
    return sum(row[column] for row in rows)


def class_rows(
    counted: Sequence[Mapping[str, Any]], examples: Mapping[str, tuple[Example, ...]] = _NO_EXAMPLES
) -> tuple[ClassRow, ...]:
    """A row for every class, made of the rows of ``CLASSES``."""
    models, downloads = _sum(counted, "models"), _sum(counted, "downloads")
    found = []
    for change, rule in CHANGES.items():
        rows = [row for row in counted if row["class"] == change]
        found.append(
            ClassRow(
                change=change,
                cases=Rate(_sum(rows, "cases"), _sum(counted, rule.total)),
                models=Rate(_sum(rows, "models"), models),
                downloads=Rate(_sum(rows, "downloads"), downloads),
                failed_after=_sum(rows, "failed_after"),
                suites={row["suite"]: row["cases"] for row in sorted(rows, key=lambda row: row["suite"])},
                examples=examples.get(change, ()),
            )
        )
    return tuple(found)


def _examples(store: Store, before: str, after: str, limit: int) -> dict[str, tuple[Example, ...]]:
    """The first cases of each class that is a change, the most downloaded models first."""
    rows = store.query_rows(
        f"SELECT * FROM ({CASES}) WHERE class <> 'unchanged' "
        f"QUALIFY row_number() OVER (PARTITION BY class ORDER BY {_ORDER}) <= ? ORDER BY class, {_ORDER}",
        [before, after, limit],
    )
    found: dict[str, tuple[Example, ...]] = {}
    for row in rows:
        found[row["class"]] = (*found.get(row["class"], ()), _example(row))
    return found


def _example(row: Mapping[str, Any]) -> Example:
    return Example(
        case=row["case_id"],
        before_id=row["before_id"],
        before=state_text(row["before_outcome"], row["before_stage"], row["kind"]),
        after=state_text(row["after_outcome"], row["after_stage"], row["kind"]),
        message=said(row["after_exception"], row["after_message"])
        or said(row["before_exception"], row["before_message"]),
        downloads=row["downloads"],
    )


def state_text(outcome: str | None, stage: str | None, kind: str) -> str:
    """How a case came out, in words: its outcome, and of a model the stage that decided it."""
    if outcome is None:
        return "not planned"
    return f"{outcome} in {stage}" if kind == "model" and outcome != "passed" else outcome


def said(exception: str | None, message: str | None) -> str:
    """What a failure said, the name of its exception without its module."""
    return ": ".join(part for part in ((exception or "").rpartition(".")[2], message or "") if part)


def _cluster(row: Mapping[str, Any]) -> Cluster:
    names = [field.name for field in dataclasses.fields(Cluster) if field.name != "change"]
    return Cluster(change=Change(row["class"]), **{name: row[name] for name in names})
