"""The command ``harness repro``."""

from __future__ import annotations

import argparse
import sys

from harness.errors import ExitCode, InfrastructureError
from harness.repro.reproduction import reproduce


def repro(options: argparse.Namespace) -> int:
    """Print one command and a script that show a case again; the script alone goes to standard output."""
    from results.store import open_store

    with open_store(options.store) as store:
        found = reproduce(store, store.resolve_run(options.run), options.case)
    print(f"harness: recorded: {ascii(found.said[:500])[1:-1]}", file=sys.stderr)
    print(f"harness: again: {found.command}", file=sys.stderr)
    if options.output is None:
        print(found.script, end="")
        return ExitCode.OK
    try:
        options.output.write_text(found.script, encoding="utf-8")
    except OSError as error:
        raise InfrastructureError(f"--output {options.output}: {error.strerror}") from error
    print(f"harness: or: python {options.output}", file=sys.stderr)
    return ExitCode.OK
