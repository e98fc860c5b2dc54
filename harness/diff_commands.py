"""``harness diff``: what changed from one run to another."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from harness.commands import console
from harness.errors import ExitCode
from harness.writing import check_place, write_whole
from results.document import HTML, print_document
from results.tables import Format, one_line

if TYPE_CHECKING:
    from results.diff import Diff

ALL = 1_000_000
"""Examples when all are asked for."""


def diff(options: argparse.Namespace) -> int:
    """Compare two runs and print what changed; with a gate, exit 1 if something got worse."""
    from results.diff import read_diff
    from results.diff_report import render_diff, report
    from results.store import open_store

    form, out = (HTML, options.html) if options.html is not None else (options.format, options.out)
    check_place(out, "--html" if options.html is not None else "--out")
    with open_store(options.store) as store:
        found = read_diff(store, options.before, options.after, examples=options.examples or ALL)
    place = options.store.absolute()
    if out is not None:
        write_whole(out, render_diff(found, form, place, width=console().width))
        print(f"harness: {out} holds the diff of {found.before.run} and {found.after.run}", file=sys.stderr)
    elif form == Format.TABLE:
        print_document(report(found, place), console())
    else:
        print(render_diff(found, form, place), end="")
    return _gate(found) if options.gate else ExitCode.OK


def _gate(found: Diff) -> ExitCode:
    """The exit status of a diff that is a gate, and on standard error why it is not 0."""
    if found.worse:
        code, why = ExitCode.REGRESSIONS, f"{found.worse:,} of {found.cases:,} cases got worse"
    elif not found.after.complete:
        code, why = (
            ExitCode.INCOMPLETE,
            f"run {found.after.run} is incomplete, so nobody knows what got worse",
        )
    else:
        return ExitCode.OK
    print(f"harness: diff exits {code:d}: {one_line(why)}", file=sys.stderr)
    return code
