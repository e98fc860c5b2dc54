"""``harness expectations update`` and ``check``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from harness.commands import profile_of
from harness.errors import ExitCode, InfrastructureError
from results.vocabulary import Category

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


def _left_over(found: object) -> Iterator[str]:
    """A sentence about each kind of thing that was left alone."""
    from results.expectation_update import Update

    assert isinstance(found, Update)
    if found.regressions:
        yield (
            f"{_named(found.regressions)} failed and passed before, or failed otherwise than declared; "
            "--accept-regressions declares regressions, too"
        )
    if found.uncategorised:
        cases = [result.case.id for result in found.uncategorised]
        yield (
            f"{_named(cases)} failed in a way that tells no category; give one with --category, one of "
            f"{', '.join(Category)}"
        )
    if found.flakes:
        yield f"{_named(found.flakes)} passed in one attempt and failed in another; declare flakes by hand"
    if found.conflicts:
        yield f"{_named(found.conflicts)} have an entry under other conditions; change that one by hand"
    for glob in found.idle_globs:
        yield f"{glob.source}: all cases of {glob.pattern!r} in this run passed, but it had not all there are"


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
