"""What each command of the command line does: call the part that works, print its result."""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.profiles import Profile, load_profile, parse_assignment, profile_names
from results.layout import default_store
from results.plan import Plan
from results.tables import Format, Row, one_line, render, rich_table
from results.vocabulary import Outcome

if TYPE_CHECKING:
    from harness.gate import Judgement
    from harness.nightly import Run

JUNIT = "junit"
"""A form of a report, beside those of any list."""

_PIPE_COLUMNS = 140
_WRITER_SECONDS = 60
_OPTIONS = ("device", "engine", "hub", "models", "model_filter", "test_filter", "workers")
_LISTS = ("suites", "upstream_families", "upstream_files")


def nightly(options: argparse.Namespace) -> int:
    """Run a profile and print its scoreboard."""
    from harness.nightly import run

    profile = profile_of(options)
    _check_junit(options.junit)
    finished = run(profile, options.store, say=say(options.quiet), quiet=options.quiet)
    return _conclude(finished, options)


def run(options: argparse.Namespace) -> int:
    """Run one suite whole: by the profile of its name, if there is one and no other is named."""
    named = options.suite if options.suite in profile_names() else "default"
    options.profile, options.suites = options.profile or named, options.suite
    return nightly(options)


def resume(options: argparse.Namespace) -> int:
    """Go on with a run, the latest that did not come to its end if none is named; print its scoreboard."""
    from harness.nightly import resume as go_on
    from harness.unfinished import latest_unfinished

    _check_junit(options.junit)
    run = options.run or latest_unfinished(options.store)
    finished = go_on(
        run,
        options.store,
        engine=options.engine,
        workers=options.workers,
        say=say(options.quiet),
        quiet=options.quiet,
    )
    return _conclude(finished, options)


def _conclude(finished: Run, options: argparse.Namespace) -> int:
    """Print a run's scoreboard, and what it comes to; give the exit status."""
    _print_report(options.store, finished.id, options.format)
    if options.junit is not None:
        _write_junit(options.store, finished.id, options.junit)
    return _pass_judgement(finished.id, finished.judgement, options)


def _pass_judgement(run: str, judgement: Judgement, options: argparse.Namespace) -> ExitCode:
    """Say on standard error why a run is not well, and how to go on with it; give the exit status."""
    if judgement.code is ExitCode.OK:
        return ExitCode.OK
    code = judgement.enforced(options.gate)
    store = "" if options.store == default_store() else f" --store {shlex.quote(str(options.store))}"
    hint = f"; go on with `{_program()} resume {run}{store}`" if judgement.resumable else ""
    print(f"harness: run {run} exits {code:d}: {one_line(judgement.sentence)}{hint}", file=sys.stderr)
    return code


def _check_junit(path: Path | None) -> None:
    """Refuse a place that cannot be written before a night is spent, not after it."""
    if path is None:
        return
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise UsageError(f"--junit {path}: not a file in a folder that is there and can be written")


def _write_junit(store: Path, run: str, path: Path) -> None:
    """Write a run as JUnit XML, whole or not at all."""
    from results.junit import write_junit
    from results.store import open_store

    beside = path.with_name(f".{path.name}.tmp")
    try:
        with open_store(store) as reader, beside.open("w", encoding="utf-8", newline="\n") as stream:
            write_junit(reader, run, stream)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InfrastructureError(
            f"run {run} is in the store, but {path} could not be written: {error.strerror}; "
            f"`harness report {run} --format {JUNIT}` prints it"
        ) from error


def plan(options: argparse.Namespace) -> int:
    """List the cases a profile would run."""
    from harness import hub
    from harness.planning import new_run_id, plan_run

    profile = profile_of(options)
    store = options.store.resolve()
    with hub.serve_for(profile, store) as endpoint:
        planned = plan_run(
            profile, new_run_id(store, profile.device), endpoint, say(quiet=False), store=store
        )
    print_table(_plan_rows(planned), options.format)
    return ExitCode.OK


def _plan_rows(planned: Plan) -> list[dict[str, Any]]:
    return [
        {"case": case.id, "kind": case.kind.value, "expectation": case.declared.expectation.value}
        for case in planned.cases
    ]


def probe(options: argparse.Namespace) -> int:
    """Run one model and print its stages and what fell back."""
    from harness.probing import probe as probe_model

    overrides: dict[str, Any] = {"device": options.device} if options.device else {}
    if options.allow_remote_code:
        overrides["allow_remote_code"] = options.allow_remote_code
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
    print_table(rows, options.format)
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
    if options.allow_remote_code:
        overrides["allow_remote_code"] = options.allow_remote_code
    for key in _LISTS:
        given: str | None = getattr(options, key)
        if given is not None:
            overrides[key] = [name.strip() for name in given.split(",") if name.strip()]
    return load_profile(options.profile, overrides)


def report(options: argparse.Namespace) -> int:
    """Print the scoreboard of a run; with a gate, exit as the run would."""
    from harness.gate import judge
    from results.store import open_store

    with open_store(options.store) as store:
        run = store.resolve_run(options.run)
        judgement = judge(store, run)
    _print_report(options.store, run, options.format)
    return _pass_judgement(run, judgement, options) if options.gate else ExitCode.OK


def skips(options: argparse.Namespace) -> int:
    """Print the skip ledger of a run, what is uncategorised first."""
    from results.skips import render_skips
    from results.store import open_store

    with open_store(options.store) as store:
        text = render_skips(store, options.run, Format(options.format), width=console().width)
    print(text, end="")
    return ExitCode.OK


def ingest(options: argparse.Namespace) -> int:
    """Take run folders into the store, or make its database anew."""
    from results.ingest import ContradictionError, IngestError, rebuild
    from results.ingest import ingest as ingest_run
    from suites.skips.engine import category_again as again

    if not options.folders and not options.rebuild:
        raise UsageError("name a run's folder (one with a plan.json), or give --rebuild")
    try:
        reports = rebuild(options.store, wait=_WRITER_SECONDS, again=again) if options.rebuild else []
        for folder in options.folders:
            reports.append(ingest_run(options.store, folder, wait=_WRITER_SECONDS, again=again))
    except (ContradictionError, IngestError) as error:
        raise UsageError(str(error)) from error
    for done in reports:
        print(
            f"{done.run}: {done.records} new records from {done.logs} logs; "
            f"{done.with_result} of {done.planned} cases have a result"
        )
    return ExitCode.OK if all(done.complete for done in reports) else ExitCode.INCOMPLETE


def say(quiet: bool) -> Callable[[str], None]:
    """Something that takes a sentence about what is done, and prints it unless it shall be quiet."""

    def to_standard_error(sentence: str) -> None:
        if not quiet:
            print(f"harness: {sentence}", file=sys.stderr, flush=True)

    return to_standard_error


def _print_report(folder: Path, run: str | None, form: str) -> None:
    from results.junit import write_junit
    from results.report import print_report, render_report
    from results.scoreboard import scoreboard
    from results.store import open_store

    with open_store(folder) as store:
        if form == JUNIT:
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(encoding="utf-8")  # as the file says of itself, whatever the locale
            write_junit(store, run, sys.stdout)
            return
        board = scoreboard(store, run)
    if form == Format.TABLE:
        print_report(board, console(), program=_program())
    else:
        print(render_report(board, Format(form)), end="")


def _program() -> str:
    """How this command was called: by its name, or by its path where that is not on the search path."""
    called = Path(sys.argv[0])
    if called.name != "harness" or shutil.which("harness") is not None:
        return "harness"
    return os.path.relpath(called)


def print_table(rows: Sequence[Row], form: str) -> None:
    """Print a list in the form asked for."""
    if form == Format.TABLE:
        console().print(rich_table(rows, list(rows[0]) if rows else []))
    else:
        print(render(rows, Format(form)), end="")


def console() -> Console:
    """Standard output; a file or a pipe has no width of its own, and 80 columns cut too much."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS)


def _print_probe(place: Path, run_id: str) -> int:
    """The stages of the one model that was probed, and what fell back; 0 if all passed."""
    from results.gaps import render_gaps
    from results.store import open_store

    with open_store(place) as store:
        stages = store.rows("v_stages", run=run_id)
        fell_back = render_gaps(store, run_id, width=console().width)
    rows = [{name: row[name] for name in ("stage", "outcome", "seconds", "message")} for row in stages]
    print(stages[0]["case_id"])
    print_table(rows, Format.TABLE)
    print(fell_back, end="")
    passed = all(row["outcome"] == Outcome.PASSED for row in stages)
    return ExitCode.OK if passed else ExitCode.REGRESSIONS
