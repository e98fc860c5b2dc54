"""``python -m suites.opinfo list [--json] [--selection NAME] [--dtypes A,B]``."""

from __future__ import annotations

import argparse
import json
import sys
import warnings

from suites.opinfo.listing import to_json
from suites.opinfo.selection import DEFAULT_DTYPES, FIRST, SelectionError, load_selection


def main(arguments: list[str] | None = None) -> int:
    """Print the cases of a selection; 2 if it cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m suites.opinfo")
    commands = parser.add_subparsers(required=True)
    listing = commands.add_parser("list", help="print the cases of a selection")
    listing.add_argument("--json", action="store_true", help="as JSON, with what each case needs to run")
    listing.add_argument("--selection", default=FIRST, help="first (default), all, or a TOML file")
    listing.add_argument("--dtypes", default=",".join(DEFAULT_DTYPES), help="comma-separated names")
    options = parser.parse_args(arguments)
    try:
        selection = load_selection(options.selection)  # before torch: a wrong name is said at once
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from suites.opinfo.catalog import cases, torch
        found = cases(selection, tuple(filter(None, options.dtypes.split(","))))
    except SelectionError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        json.dump({"torch": torch.__version__, "cases": to_json(found)}, sys.stdout)
    else:
        print("\n".join(case.id for case in found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
