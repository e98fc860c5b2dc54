"""``python -m suites.claims list [--json]``: the claims, with who said so and where they apply."""

from __future__ import annotations

import argparse
import json
import sys


def main(arguments: list[str] | None = None) -> int:
    """Print the claims."""
    parser = argparse.ArgumentParser(prog="python -m suites.claims")
    commands = parser.add_subparsers(required=True)
    listing = commands.add_parser("list", help="print the claims")
    listing.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(arguments)
    from suites.claims.registry import case_of, claims

    rows = [
        {
            "id": case_of(claim).id,
            "statement": claim.statement,
            "source": claim.said_by,
            "applies to": claim.scope.value,
        }
        for claim in claims().values()
    ]
    if options.json:
        json.dump(rows, sys.stdout, indent=1)
        return 0
    for row in rows:
        print(f"{row['id']}\n  {row['statement']}\n  {row['source']}; {row['applies to']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
