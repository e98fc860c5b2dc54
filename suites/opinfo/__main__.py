"""``python -m suites.opinfo list | checks``."""

from __future__ import annotations

import argparse
import sys
import warnings

from suites.opinfo.selection import (
    DEFAULT_CHECKS,
    DEFAULT_DATABASES,
    DEFAULT_DTYPES,
    FIRST,
    SelectionError,
    load_selection,
)


def main(arguments: list[str] | None = None) -> int:
    """Print the cases of a selection, or what the checks are; 2 if the selection cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m suites.opinfo")
    commands = parser.add_subparsers(required=True)
    listing = commands.add_parser("list", help="print the cases of a selection")
    listing.add_argument("--selection", default=FIRST, help="first (default), all, or a TOML file")
    listing.add_argument("--dtypes", type=_names, default=DEFAULT_DTYPES, help="comma-separated names")
    listing.add_argument(
        "--checks", type=_names, default=DEFAULT_CHECKS, help="comma-separated names, or all"
    )
    listing.add_argument(
        "--databases", type=_names, default=DEFAULT_DATABASES, help="comma-separated names, or all"
    )
    listing.set_defaults(command=_list)
    commands.add_parser("checks", help="say what the checks are").set_defaults(command=_checks)
    options = parser.parse_args(arguments)
    try:
        options.command(options)
    except SelectionError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _list(options: argparse.Namespace) -> None:
    selection = load_selection(options.selection)  # before torch: a wrong name is said at once
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from suites.opinfo.catalog import cases
    found = cases(selection, options.dtypes, options.checks, options.databases)
    print("\n".join(case.id for case in found))


def _checks(_options: argparse.Namespace) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from suites.opinfo.checks import CHECKS
    for check in CHECKS.values():
        print(f"{check.name:<14}{check.meaning}")


if __name__ == "__main__":
    sys.exit(main())
