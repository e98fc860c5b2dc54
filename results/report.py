"""The scoreboard of a run as a terminal page, Markdown, JSON or CSV."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import Console

from results.document import HTML, Document, Section, markdown, page, print_document, terminal
from results.reproducing import PROGRAM, reproducer
from results.scoreboard import DeathRow, FailureRow, Scoreboard
from results.tables import Format, Row, one_line, render, to_json
from results.vocabulary import Evidence


def render_report(board: Scoreboard, form: str, *, width: int | None = None) -> str:
    """Render a scoreboard in one of the forms of a list, or as ``html``; a table has no colours."""
    if form == Format.JSON:
        return to_json(_record(board))
    if form == Format.CSV:
        return render(_measures(board), Format.CSV, columns=("section", "name", "numerator", "denominator"))
    if form == Format.MD:
        return markdown(report(board))
    if form == HTML:
        return page(report(board))
    return terminal(report(board), width=width)


def print_report(board: Scoreboard, console: Console, *, program: str = PROGRAM) -> None:
    """Print a scoreboard to a terminal; ``program`` is how its reader calls the command."""
    print_document(report(board, program=program), console)


def report(board: Scoreboard, *, program: str = PROGRAM) -> Document:
    """A scoreboard as a document."""
    verdicts = ", ".join(f"{cases} {name}" for name, cases in board.verdicts.items())
    return Document(
        title=_headline(board),
        warnings=board.warnings,
        sections=tuple(sections(board, program=program)),
        notes=(f"Verdicts: {verdicts}", *_footer(board, program)),
        whole=f"`{PROGRAM} report {board.run} --format json`",
    )


def sections(board: Scoreboard, *, program: str = PROGRAM) -> list[Section]:
    """The tables of a report, empty ones left out."""
    found = [
        Section("Why cases have no result", ("reason", "cases"), _reasons(board)),
        Section(_models_title(board), ("stage", "passed", "by downloads"), _stages(board)),
        Section(_drops_title(board), ("file", "tests", "before", "in run"), _drops(board)),
        Section("Cases by outcome", ("suite", "passed", "outcomes"), _suites(board), 500),
        Section(
            "Checks of suite opinfo",
            ("list", "check", "passed", "failed", "unsupported", "skipped"),
            _checks(board) if len(board.checks) > 1 else [],
        ),
        Section("Operator calls on the device", ("in", "on device", "copies", "bytes moved"), _shares(board)),
        Section(
            "First gaps: operators that fell back to the CPU",
            ("rank", "op", "models", "downloads", "tests", "calls", "dtypes"),
            _gaps(board),
        ),
        Section(
            _failures_title(board),
            ("cases", "outcome", "stage", "what", "again"),
            _failures(board, program),
            160,
            ("again",),
        ),
        Section(_flakes_title(board), ("case", "by attempt", "disturbed by"), _flakes(board), 160),
        Section(_deaths_title(board), ("fate", "processes", "meaning", "example"), _deaths(board), 160),
    ]
    return [section for section in found if section.rows]


def _models_title(board: Scoreboard) -> str:
    if not board.funnel:
        return "Models"
    first = board.funnel[0]
    counted = f"Models: {first.passed.denominator} counted of {first.planned} planned"
    if board.evidence.keys() <= {"", Evidence.RAN}:
        return counted
    by = (f"{models} {name}" for name, models in board.evidence.items() if name)
    return f"{counted}; by {', '.join(by)}; downloads of {first.downloads.denominator:,} counted"


def _flakes_title(board: Scoreboard) -> str:
    shown = len(board.flakes)
    first = f", the first {shown}" if shown < board.flaky_cases else ""
    return f"Flakes: passed in one attempt, failed in another: {board.flaky_cases}{first}"


def _drops_title(board: Scoreboard) -> str:
    return f"Test files with fewer tests than before: {len(board.drops)}"


def _deaths_title(board: Scoreboard) -> str:
    return f"Worker processes that died: {board.worker_deaths}"


def _headline(board: Scoreboard) -> str:
    took = "" if board.seconds is None else f", {board.seconds:.0f} s"
    if board.resumes:
        took += f", resumed {'once' if board.resumes == 1 else f'{board.resumes} times'}"
    return one_line(
        f"Run {board.run} on {board.device} (profile {board.profile}{took}): "
        f"{board.with_result} of {board.planned} cases have a result"
    )


def _footer(board: Scoreboard, program: str) -> list[str]:
    routes = board.op_routes
    store = board.database.parent
    deaths = [] if board.deaths else [f"{_deaths_title(board)}."]
    return [
        f"Operators: {routes.device_only} only on the device, {routes.both} on both, "
        f"{routes.fallback_only} only on the CPU, of {routes.ops} that ran.",
        *deaths,
        f"Skips: {board.skips}.",
        f"Database: {one_line(str(board.database))}",
        f"Pages:    {one_line(program)} dashboard --store {one_line(str(store))}",
    ]


def _record(board: Scoreboard) -> dict[str, Any]:
    """The scoreboard as nested dictionaries, with what is derived beside its fields."""
    derived = {"banner": board.banner, "warnings": board.warnings, "worker_deaths": board.worker_deaths}
    record: dict[str, Any] = derived | dataclasses.asdict(board)
    for failure in record["failures"]:
        failure["again"] = _again(board, failure["example_case"], PROGRAM)
    return record


def _measures(board: Scoreboard) -> list[dict[str, Any]]:
    """Every number of the board as (section, name, numerator, denominator)."""
    found: list[tuple[str, str, int, int | None]] = [
        ("run", "cases with a result", board.with_result, board.planned),
        ("run", "resumes", board.resumes, None),
        ("run", "flakes", board.flaky_cases, board.planned),
        ("run", "worker deaths", board.worker_deaths, None),
    ]
    found += [("worker deaths", row.fate, row.deaths, board.worker_deaths) for row in board.deaths]
    for stage in board.funnel:
        found.append(("models", stage.stage, stage.passed.numerator, stage.passed.denominator))
        downloads = stage.downloads
        found.append(("downloads", stage.stage, downloads.numerator, downloads.denominator))
    for suite in board.suites:
        found += [(f"outcomes {suite.suite}", name, n, suite.planned) for name, n in suite.outcomes.items()]
    for check in board.checks:
        passed = check.passed
        found.append((f"checks {check.list}", check.check, passed.numerator, passed.denominator))
    found += [("verdicts", name, cases, board.planned) for name, cases in board.verdicts.items()]
    found += [
        ("op calls on device", s.kind, s.calls.numerator, s.calls.denominator) for s in board.device_share
    ]
    sums = dataclasses.asdict(board.skips)
    sources = ("eligibility", "deliberate", "uncategorised")
    found += [("skips", source, sums[source], board.skips.skips) for source in sources]
    routes = dataclasses.asdict(board.op_routes)
    found += [("operators", name, n, board.op_routes.ops) for name, n in routes.items() if name != "ops"]
    found += [("collected tests", row.file, row.now, row.before) for row in board.drops]
    found += [("gaps: models", gap.op, gap.models, None) for gap in board.gaps]
    found += [("failures: cases", row.signature, row.cases, None) for row in board.failures]
    return [dict(zip(("section", "name", "numerator", "denominator"), row, strict=True)) for row in found]


def _reasons(board: Scoreboard) -> list[Row]:
    return [{"reason": reason, "cases": cases} for reason, cases in board.missing_reasons.items()]


def _stages(board: Scoreboard) -> list[Row]:
    return [
        {"stage": row.stage, "passed": str(row.passed), "by downloads": str(row.downloads)}
        for row in board.funnel
    ]


def _suites(board: Scoreboard) -> list[Row]:
    return [
        {
            "suite": row.suite,
            "passed": str(row.passed),
            "outcomes": ", ".join(f"{cases} {name}" for name, cases in row.outcomes.items()),
        }
        for row in board.suites
    ]


def _checks(board: Scoreboard) -> list[Row]:
    return [
        {
            "list": row.list,
            "check": row.check,
            "passed": str(row.passed),
            "failed": row.failed,
            "unsupported": row.unsupported,
            "skipped": row.skipped,
        }
        for row in board.checks
    ]


def _shares(board: Scoreboard) -> list[Row]:
    return [
        {
            "in": row.kind,
            "on device": str(row.calls),
            "copies": row.movement_calls,
            "bytes moved": row.bytes_moved,
        }
        for row in board.device_share
    ]


def _gaps(board: Scoreboard) -> list[Row]:
    return [
        {
            "rank": gap.rank,
            "op": gap.op,
            "models": gap.models,
            "downloads": gap.downloads,
            "tests": gap.tests,
            "calls": gap.fallback_calls,
            "dtypes": gap.dtypes,
        }
        for gap in board.gaps
    ]


def _failures_title(board: Scoreboard) -> str:
    shown = len(board.failures)
    first = f", the first {shown}" if shown < board.failure_kinds else ""
    return f"What did not pass, by signature: {board.failure_kinds}{first}"


def _again(board: Scoreboard, case: str, program: str) -> str:
    return reproducer(case, board.run, board.database.parent, program=program)


def _failures(board: Scoreboard, program: str) -> list[Row]:
    return [
        {
            "cases": row.cases,
            "outcome": row.outcome,
            "stage": row.stage,
            "what": _failure(row),
            "again": _again(board, row.example_case, program),
        }
        for row in board.failures
    ]


def _flakes(board: Scoreboard) -> list[Row]:
    return [{"case": row.case, "by attempt": row.outcomes, "disturbed by": row.cause} for row in board.flakes]


def _deaths(board: Scoreboard) -> list[Row]:
    return [
        {"fate": row.fate, "processes": row.deaths, "meaning": row.meaning, "example": _example(row)}
        for row in board.deaths
    ]


def _drops(board: Scoreboard) -> list[Row]:
    return [
        {"file": row.file, "tests": row.now, "before": row.before, "in run": row.before_run}
        for row in board.drops
    ]


def _example(row: DeathRow) -> str:
    if not row.example_case:
        return f"{row.example_worker}, in no case"
    return f"{row.example_worker}, in {row.example_stage} of {row.example_case}"


def _failure(row: FailureRow) -> str:
    if row.message and row.exception in ("", row.outcome):
        return row.message
    kind = row.exception.rpartition(".")[2]  # the whole name stands in the other formats
    return f"{kind}: {row.message}" if row.message else kind
