"""What each command of the command line does: call the part that works, print its result."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from harness.errors import ExitCode, UsageError
from harness.profiles import Profile, load_profile, parse_assignment
from results.plan import Plan
from results.tables import Format, Row, render, rich_table
from results.vocabulary import Outcome

if TYPE_CHECKING:
    from harness.nightly import Run

_PIPE_COLUMNS = 140
_OPTIONS = ("device", "engine", "hub", "models", "model_filter", "test_filter", "workers")


def nightly(options: argparse.Namespace) -> int:
    """Run a profile and print its scoreboard."""
    from harness.nightly import run

    profile = profile_of(options)
    finished = run(profile, options.store, say=_say(options.quiet), quiet=options.quiet)
    return _conclude(finished, options)


def resume(options: argparse.Namespace) -> int:
    """Go on with a run and print its scoreboard."""
    from harness.nightly import resume as go_on

    finished = go_on(
        options.run, options.store, engine=options.engine, say=_say(options.quiet), quiet=options.quiet
    )
    return _conclude(finished, options)


def _conclude(finished: Run, options: argparse.Namespace) -> int:
    """Print a run's scoreboard and how to go on with it if it was cut short; give the exit status."""
    _print_report(options.store, finished.id, options.format)
    if finished.reason:
        print(
            f"harness: run {finished.id} ended early: {finished.reason}; "
            f"go on with `{_program()} resume {finished.id}`",
            file=sys.stderr,
        )
    code = finished.exit_code
    return ExitCode.OK if code is ExitCode.REGRESSIONS and not options.gate else code


def plan(options: argparse.Namespace) -> int:
    """List the cases a profile would run."""
    from harness import hub
    from harness.planning import new_run_id, plan_run

    profile = profile_of(options)
    store = options.store.resolve()
    with hub.serve(profile.hub, store) as endpoint:
        planned = plan_run(profile, new_run_id(store, profile.device), endpoint, _say(quiet=False))
    _print_table(_plan_rows(planned), options.format)
    return ExitCode.OK


def _plan_rows(planned: Plan) -> list[dict[str, Any]]:
    return [
        {"case": case.id, "kind": case.kind.value, "expectation": case.declared.expectation.value}
        for case in planned.cases
    ]


def probe(options: argparse.Namespace) -> int:
    """Run one model and print its stages and what fell back."""
    from harness.probing import probe as probe_model

    overrides = {"device": options.device} if options.device else {}
    profile = load_profile(options.profile, overrides)
    finished = probe_model(options.model, profile, options.store, hub_name=options.hub, quiet=options.quiet)
    return _print_probe(finished.store, finished.id)


def doctor(options: argparse.Namespace) -> int:
    """Check everything a run needs."""
    from harness.doctor import examine

    checks = examine(options.device, options.hub, options.store)
    rows = [
        {
            "check": check.name,
            "": "ok" if check.ok else "FAILED",
            "found": check.found,
            "what to do": "" if check.ok else check.advice,
        }
        for check in checks
    ]
    _print_table(rows, options.format)
    return ExitCode.OK if all(check.ok for check in checks) else ExitCode.DEVICE


def dashboard(options: argparse.Namespace) -> int:
    """Serve the dashboard in a process of its own; the packages do not import each other."""
    if importlib.util.find_spec("dashboard") is None:
        raise UsageError("the dashboard is not installed; install this package again")
    command = [sys.executable, "-m", "dashboard", "--store", str(options.store), "--port", str(options.port)]
    return subprocess.call(command)


def profile_of(options: argparse.Namespace) -> Profile:
    """The profile that the command line asks for."""
    overrides: dict[str, Any] = dict(parse_assignment(text) for text in options.set)
    overrides |= {key: getattr(options, key) for key in _OPTIONS if getattr(options, key) is not None}
    if options.suites is not None:
        overrides["suites"] = [name.strip() for name in options.suites.split(",") if name.strip()]
    return load_profile(options.profile, overrides)


def report(options: argparse.Namespace) -> int:
    """Print the scoreboard of a run."""
    _print_report(options.store, options.run, options.format)
    return ExitCode.OK


def gaps(options: argparse.Namespace) -> int:
    """Print the operators that fell back."""
    from results.gaps import render_gaps
    from results.store import open_store

    with open_store(options.store) as store:
        form, width = Format(options.format), _console().width
        text = render_gaps(store, options.run, form, limit=options.limit or None, width=width)
    print(text, end="")
    return ExitCode.OK


def ingest(options: argparse.Namespace) -> int:
    """Take run folders into the store, or make its database anew."""
    from results.ingest import ContradictionError, IngestError, PlanMismatchError, rebuild
    from results.ingest import ingest as ingest_run

    if not options.folders and not options.rebuild:
        raise UsageError("name a run's folder (one with a plan.json), or give --rebuild")
    try:
        reports = rebuild(options.store) if options.rebuild else []
        reports += [ingest_run(options.store, folder) for folder in options.folders]
    except (ContradictionError, IngestError, PlanMismatchError) as error:
        raise UsageError(str(error)) from error
    for done in reports:
        print(
            f"{done.run}: {done.records} new records from {done.logs} logs; "
            f"{done.with_result} of {done.planned} cases have a result"
        )
    return ExitCode.OK if all(done.complete for done in reports) else ExitCode.INCOMPLETE


def _say(quiet: bool) -> Callable[[str], None]:
    def say(sentence: str) -> None:
        if not quiet:
            print(f"harness: {sentence}", file=sys.stderr, flush=True)

    return say


def _print_report(folder: Path, run: str | None, form: str) -> None:
    from results.report import print_report, render_report
    from results.scoreboard import scoreboard
    from results.store import open_store

    with open_store(folder) as store:
        board = scoreboard(store, run)
    if form == Format.TABLE:
        print_report(board, _console(), program=_program())
    else:
        print(render_report(board, Format(form)), end="")


def _program() -> str:
    """How this command was called: by its name, or by its path where that is not on the search path."""
    called = Path(sys.argv[0])
    if called.name != "harness" or shutil.which("harness") is not None:
        return "harness"
    return os.path.relpath(called)


def _print_table(rows: Sequence[Row], form: str) -> None:
    if form == Format.TABLE:
        _console().print(rich_table(rows, list(rows[0]) if rows else []))
    else:
        print(render(rows, Format(form)), end="")


def _console() -> Console:
    """Standard output; a file or a pipe has no width of its own, and 80 columns cut too much."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS)


def _print_probe(place: Path, run_id: str) -> int:
    """The stages of the one model that was probed, and what fell back; 0 if all passed."""
    from results.gaps import render_gaps
    from results.store import open_store

    with open_store(place) as store:
        stages = store.rows("v_stages", run=run_id)
        fell_back = render_gaps(store, run_id, width=_console().width)
    rows = [{name: row[name] for name in ("stage", "outcome", "seconds", "message")} for row in stages]
    print(stages[0]["case_id"])
    _print_table(rows, Format.TABLE)
    print(fell_back, end="")
    passed = all(row["outcome"] == Outcome.PASSED for row in stages)
    return ExitCode.OK if passed else ExitCode.REGRESSIONS
