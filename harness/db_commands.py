"""The commands ``harness db …``: the store itself, apart from what it says."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from harness import commands
from harness.errors import ExitCode
from results.layout import default_store
from results.tables import Format

Arguments = Any
"""What ``add_parser`` gives, and what ``add_subparsers`` gives; argparse names neither."""


def add_group(children: Arguments) -> None:
    """Add the group and its commands."""
    text = "the store itself: check it, make it smaller, take it elsewhere"
    group = children.add_parser("db", help=text, description=text)
    actions = group.add_subparsers(metavar="COMMAND", required=True)
    _add_check(actions)


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
    child = _command(actions, "check", check, text)
    form = child.add_mutually_exclusive_group()
    form.add_argument("--format", choices=list(Format), default="table", help="how to print (default: table)")
    form.add_argument(
        "--json", dest="format", action="store_const", const="json", help="the same as --format json"
    )


def _command(actions: Arguments, name: str, function: Any, text: str) -> argparse.ArgumentParser:
    child: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
    child.set_defaults(function=function)
    child.add_argument(
        "--store",
        type=Path,
        default=default_store(),
        metavar="DIR",
        help="folder of the results (default: $HARNESS_STORE, else harness-data)",
    )
    return child
