"""``harness gaps``: what fell back, and which operators to lower next."""

from __future__ import annotations

import argparse

from harness.commands import console
from harness.errors import ExitCode, UsageError
from results.tables import Format
from results.unlock import By


def gaps(options: argparse.Namespace) -> int:
    """Print the operators that fell back, or what to do about them."""
    from results.gaps import render_dtypes, render_gaps
    from results.store import open_store

    if options.given is not None and options.unlock is None:
        raise UsageError("--with says what is lowered already; give --unlock K as well, K may be 0")
    form, width = Format(options.format), console().width
    with open_store(options.store) as store:
        if options.unlock is not None:
            print(_unlock(options, width), end="")
            return ExitCode.OK
        list_gaps = render_dtypes if options.dtypes else render_gaps
        print(list_gaps(store, options.run, form, limit=options.limit or None, width=width), end="")
    return ExitCode.OK


def _unlock(options: argparse.Namespace, width: int) -> str:
    from results.store import open_store
    from results.unlock import rank
    from results.unlock_report import read_blocked, render_ranking, unknown

    given = [name.strip() for name in (options.given or "").split(",") if name.strip()]
    with open_store(options.store) as store:
        run = store.resolve_run(options.run)
        blocked = read_blocked(store, run)
    if missing := unknown(blocked, given):
        raise UsageError(missing)
    ranking = rank(blocked, options.unlock, By(options.by), given)
    return render_ranking(ranking, Format(options.format), width=width)
