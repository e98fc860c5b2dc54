"""A diff as a terminal page, Markdown, JSON, CSV or one HTML file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from results.changes import CHANGES, WORSE, Change
from results.diff import ClassRow, Diff, Example, said
from results.document import HTML, Document, Section, markdown, page, terminal
from results.reproducing import PROGRAM, reproducer
from results.scoreboard import Rate
from results.tables import Format, Row, render, to_json

_EXAMPLE_CHARACTERS = 160


def render_diff(diff: Diff, form: str, store: Path, *, width: int | None = None) -> str:
    """Render a diff in one of the forms of a list, or as ``html``; a table has no colours."""
    if form == Format.JSON:
        return to_json(_record(diff))
    if form == Format.CSV:
        return render(_counts(diff), Format.CSV, columns=("class", "suite", "cases", "of"))
    document = report(diff, store)
    if form == Format.MD:
        return markdown(document)
    if form == HTML:
        return page(document)
    return terminal(document, width=width)


def report(diff: Diff, store: Path, *, program: str = PROGRAM) -> Document:
    """A diff as a document: what is incomplete first, then the environment, then the classes."""
    shown = [
        _environment(diff),
        Section(
            "Cases by what became of them",
            ("class", "cases", "models", "downloads", "fail now"),
            _classes(diff),
        ),
        _clusters(diff, store, program),
        *(_examples(row) for row in diff.classes),
    ]
    return Document(
        title=headline(diff),
        warnings=diff.warnings,
        sections=tuple(section for section in shown if section.rows),
        notes=_notes(diff),
        whole=f"`{PROGRAM} diff {diff.before.run} {diff.after.run} --examples 0 --format json`",
    )


def headline(diff: Diff) -> str:
    """The two runs, and how much changed."""
    before, after = diff.before, diff.after
    return (
        f"From run {before.run} on {before.device} to run {after.run} on {after.device}: "
        f"{Rate(diff.changed, diff.cases)} cases changed, {diff.worse:,} for the worse"
    )


def class_name(change: Change) -> str:
    """A class in words."""
    return change.replace("_", " ")


def of_text(row: ClassRow) -> str:
    """How many cases of a class, of how many of which kind."""
    rule = CHANGES[row.change]
    if not row.cases.denominator:
        return f"{row.cases.numerator:,} of none {rule.of}"
    counts, _, share = str(row.cases).partition(" (")
    return f"{counts} {rule.of} ({share}"


def _notes(diff: Diff) -> tuple[str, ...]:
    only_before = diff.before.planned - diff.both
    only_after = diff.after.planned - diff.both
    same = () if diff.environment else ("Environment: the same in both.",)
    return (
        *same,
        f"Cases: {diff.before.planned:,} before, {diff.after.planned:,} now, {diff.both:,} in both, "
        f"{only_before:,} only before, {only_after:,} only now.",
        f"For the worse: {WORSE}. A case without a result in one of the runs is neither fixed nor removed.",
    )


def _environment(diff: Diff) -> Section:
    rows = [{"what": item.name, "before": item.before, "now": item.after} for item in diff.environment]
    return Section(
        "Not the same in both: compare with care", ("what", "before", "now"), rows, _EXAMPLE_CHARACTERS
    )


def _classes(diff: Diff) -> list[Row]:
    return [
        {
            "class": class_name(row.change),
            "cases": of_text(row),
            "models": str(row.models) if row.models.numerator else "",
            "downloads": str(row.downloads) if row.downloads.numerator else "",
            "fail now": row.failed_after,
        }
        for row in diff.classes
    ]


def _clusters(diff: Diff, store: Path, program: str) -> Section:
    shown, total = len(diff.clusters), diff.cluster_count
    first = f", the first {shown}" if shown < total else ""
    rows = [
        {
            "class": class_name(item.change),
            "cases": item.cases,
            "models": item.models,
            "outcome": item.outcome,
            "what": said(item.exception, item.message),
            "again": reproducer(item.example_case, diff.after.run, store, program=program),
        }
        for item in diff.clusters
    ]
    return Section(
        f"Failures that are new, by signature: {total}{first}",
        ("class", "cases", "models", "outcome", "what", "again"),
        rows,
        _EXAMPLE_CHARACTERS,
        ("again",),
    )


def _examples(row: ClassRow) -> Section:
    shown, total = len(row.examples), row.cases.numerator
    first = f", the first {shown}" if shown < total else ""
    title = f"{class_name(row.change).capitalize()}: {total:,}{first}. {CHANGES[row.change].meaning}"
    rows = [
        {
            "case": _case(item),
            "before": item.before,
            "now": item.after,
            "what": item.message,
            "downloads": item.downloads,
        }
        for item in row.examples
    ]
    columns: tuple[str, ...] = ("case", "before", "now", "what")
    if any(item.downloads is not None for item in row.examples):
        columns += ("downloads",)
    return Section(title, columns, rows, _EXAMPLE_CHARACTERS)


def _case(item: Example) -> str:
    if item.before_id in (None, item.case):
        return item.case
    return f"{item.case} (before: {str(item.before_id).rpartition('@')[2]})"


def _record(diff: Diff) -> dict[str, Any]:
    """The diff as nested dictionaries, with what is derived beside its fields."""
    record: dict[str, Any] = {"warnings": diff.warnings, "changed": diff.changed} | dataclasses.asdict(diff)
    for row in record["classes"]:
        rule = CHANGES[row["change"]]
        row |= {"meaning": rule.meaning, "of": rule.of}
    return record


def _counts(diff: Diff) -> list[Row]:
    """A row for each class, then one for each of its suites."""
    found: list[Row] = []
    for row in diff.classes:
        common = {"class": row.change.value, "of": row.cases.denominator}
        found.append({**common, "suite": "", "cases": row.cases.numerator})
        found += [{**common, "suite": suite, "cases": cases} for suite, cases in row.suites.items()]
    return found
