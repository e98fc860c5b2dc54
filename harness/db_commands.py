"""The commands ``harness db …``: the store itself, apart from what it says."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from harness import commands
from harness.arguments import add_command
from harness.errors import ExitCode
from results.tables import Format

_MOST_DAYS = 36_500

Arguments = Any
"""What ``add_parser`` gives, and what ``add_subparsers`` gives; argparse names neither."""


def add_group(children: Arguments) -> None:
    """Add the group and its commands."""
    text = "the store itself: check it, make it smaller, take it elsewhere"
    group = children.add_parser("db", help=text, description=text)
    actions = group.add_subparsers(metavar="COMMAND", required=True)
    _add_check(actions)
    _add_compact(actions)
    _add_export(actions)


def check(options: argparse.Namespace) -> int:
    """Say what is wrong with the store; 1 if anything is."""
    from results.check import check as check_store
    from results.findings import Weight

    found = check_store(options.store)
    rows = [
        {
            "": str(finding.weight),
            "run": finding.run,
            "what": finding.what,
            "found": finding.sentence,
            "what to do": finding.advice,
        }
        for finding in found
    ]
    if options.format == "table" and not found:
        print(f"{options.store}: nothing is wrong")
    else:
        commands.print_table(rows, options.format)
    return ExitCode.REGRESSIONS if any(one.weight is Weight.ERROR for one in found) else ExitCode.OK


def _add_check(actions: Arguments) -> None:
    text = "read all of the store and say what does not hold together"
    child = add_command(actions, "check", check, text)
    form = child.add_mutually_exclusive_group()
    form.add_argument("--format", choices=list(Format), default="table", help="how to print (default: table)")
    form.add_argument(
        "--json", dest="format", action="store_const", const="json", help="the same as --format json"
    )


def compact(options: argparse.Namespace) -> int:
    """Make the store smaller and say by how much."""
    from results.compact import Retention, preview
    from results.compact import compact as compact_store

    keep = Retention(options.keep_passes, options.keep_failures)
    saved = preview(options.store, keep) if options.dry_run else compact_store(options.store, keep)
    would, after = ("would be ", "") if options.dry_run else ("", f" to {_size(saved.logs_after)}")
    print(f"{_many(saved.logs, 'event log')} {would}compressed: from {_size(saved.logs_before)}{after}")
    print(f"{_many(saved.outputs, 'file')} of workers' output {would}dropped: {_size(saved.outputs_bytes)}")
    print(f"{_many(saved.rows, 'detail')} {would}dropped from the database")
    if options.dry_run:
        print(f"the database would be written anew: {_size(saved.database_before)} now")
    else:
        sizes = f"from {_size(saved.database_before)} to {_size(saved.database_after)}"
        print(f"the database was written anew: {sizes}")
    for sentence in saved.left_alone:
        print(f"left alone: {sentence}")
    return ExitCode.OK


def export(options: argparse.Namespace) -> int:
    """Write the store, or one run, as Parquet files."""
    from results.export import export as export_store
    from results.store import open_store

    with open_store(options.store) as store:
        done = export_store(store, options.to, run=options.run)
    rows = sum(done.rows.values())
    print(f"{options.to}: {len(done.rows)} files with {rows:,} rows, {_size(done.bytes)}")
    return ExitCode.OK


def _days(text: str) -> int:
    if not text.isdigit() or int(text) > _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"expected a number of days from 0 to {_MOST_DAYS}, not {text!r}")
    return int(text)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _add_compact(actions: Arguments) -> None:
    text = "compress event logs, drop old details and write the database anew; loses no result"
    child = add_command(actions, "compact", compact, text)
    for what, means in (
        ("passes", "of workers in which nothing failed, and of stages that passed"),
        ("failures", "of the others; not fewer days than of passes"),
    ):
        child.add_argument(
            f"--keep-{what}",
            type=_days,
            metavar="DAYS",
            help=f"keep output and details {means} for so long after a run's end (default: for ever)",
        )
    child.add_argument("--dry-run", action="store_true", help="say what would be done and do nothing")


def _add_export(actions: Arguments) -> None:
    text = "write every table and view as a Parquet file into a new folder"
    child = add_command(actions, "export", export, text)
    child.add_argument("--to", type=Path, required=True, metavar="DIR", help="a folder that is new or empty")
    child.add_argument("--run", metavar="RUN", help="only what is of this run (default: the whole store)")
    child.add_argument("--format", choices=("parquet",), default="parquet", help="the only one so far")
