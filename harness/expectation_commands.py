"""``harness expectations update`` and ``check``, and ``harness audit``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.commands import print_table, profile_of, say
from harness.errors import ExitCode, InfrastructureError
from results.tables import Format
from results.vocabulary import DELIBERATE, Category

if TYPE_CHECKING:
    from results.expectation_update import Update

_NAMED = 10


def update(options: argparse.Namespace) -> int:
    """Print what a run changes in the files as a diff, and write it; 1 if something is left over."""
    from harness.expecting import propose

    category = Category(options.category) if options.category else None
    proposal = propose(
        options.store.resolve(),
        options.run,
        file=options.file,
        category=category,
        accept_regressions=options.accept_regressions,
        drop_globs=options.drop_globs,
    )
    for edit in proposal.edits:
        print(edit.diff, end="")
    if not options.dry_run:
        try:
            proposal.write()
        except OSError as error:
            raise InfrastructureError(
                f"{error.filename}: {error.strerror}; name a file of your own with --file"
            ) from error
    found = proposal.update
    said = "would be " if options.dry_run else ""
    changed = len(found.replaced) - found.removed
    print(
        f"harness: {len(found.added)} {said}added, {found.removed} {said}removed, {changed} {said}changed",
        file=sys.stderr,
    )
    left = list(_left_over(found))
    for sentence in left:
        print(f"harness: {sentence}", file=sys.stderr)
    return ExitCode.REGRESSIONS if left else ExitCode.OK


def _left_over(found: Update) -> Iterator[str]:
    """A sentence about each kind of thing that was left alone."""
    if found.regressions:
        yield (
            f"{_named(found.regressions)} failed and passed before, or failed otherwise than declared; "
            "--accept-regressions declares regressions, too"
        )
    if found.uncategorised:
        cases = [result.case.id for result in found.uncategorised]
        yield (
            f"{_named(cases)} failed in a way that tells no category; give one with --category, one of "
            f"{', '.join(DELIBERATE)}"
        )
    if found.flakes:
        yield f"{_named(found.flakes)} passed in one attempt and failed in another; declare flakes by hand"
    if found.conflicts:
        yield f"{_named(found.conflicts)} have an entry under other conditions; change that one by hand"
    for glob in found.idle_globs:
        yield (
            f"{glob.source}: all cases of {glob.pattern!r} in this run passed; --drop-globs takes it out, "
            "also for cases that the run had not"
        )


def _named(cases: list[str]) -> str:
    first = ", ".join(cases[:_NAMED])
    more = f" and {len(cases) - _NAMED} more" if len(cases) > _NAMED else ""
    return f"{len(cases)} case{'s' * (len(cases) != 1)} ({first}{more})"


def check(options: argparse.Namespace) -> int:
    """Print the entries that decide nothing, each with file and line; 1 if there are any."""
    from harness.expecting import findings

    found = findings(options.store.resolve(), profile_of(options), options.run)
    for finding in found:
        print(finding)
    print(f"harness: {len(found)} expectations decide nothing", file=sys.stderr)
    return ExitCode.REGRESSIONS if found else ExitCode.OK


_TABLE = ("answer", "claim", "cases", "reason", "found", "overdue", "example", "at")


def audit(options: argparse.Namespace) -> int:
    """Print what is still true of a run's skips and expected failures; 1 if something is not any more."""
    from harness.auditing import audit as audit_run
    from results.audits import ACTIONABLE, Answer

    done = audit_run(
        options.store,
        options.run,
        pattern=options.filter,
        limit=options.limit,
        say=say(options.quiet),
        quiet=options.quiet,
    )
    rows = done.rows()
    shown = [{name: row[name] for name in _TABLE} for row in rows] if options.format == Format.TABLE else rows
    print_table(shown, options.format)
    counts = Counter(one.answer for one in done.answers)
    counts[Answer.GONE] += len(done.gone)
    said = ", ".join(f"{counts[word]} {word}" for word in Answer if counts[word]) or "nothing to audit"
    left = f"; {done.left_out} left for the next audit" if done.left_out else ""
    print(f"harness: run {done.audited}: {said}{left}", file=sys.stderr)
    if not done.complete or counts[Answer.UNJUDGED]:
        return ExitCode.INCOMPLETE
    acted = any(counts[word] for word in ACTIONABLE) or any(row["overdue"] for row in rows)
    return ExitCode.REGRESSIONS if acted else ExitCode.OK
