"""What each command of the command line does: call the part that works, print its result."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.errors import ExitCode, UsageError
from harness.profiles import Profile, load_profile, parse_assignment
from results.plan import Plan

_OPTIONS = ("device", "hub", "models", "model_filter", "test_filter", "workers")


def nightly(options: argparse.Namespace) -> int:
    """Run a profile and print its scoreboard."""
    from harness.nightly import run

    profile = profile_of(options)
    finished = run(profile, options.store, say=_say(options.quiet), quiet=options.quiet)
    _print_report(options.store, finished.id, options.format)
    if options.format == "table":
        _print_next_steps(options.store)
    return finished.exit_code


def plan(options: argparse.Namespace) -> int:
    """List the cases a profile would run."""
    from harness import hub
    from harness.planning import new_run_id, plan_run

    profile = profile_of(options)
    store = options.store.resolve()
    with hub.serve(profile.hub, store) as endpoint:
        planned = plan_run(profile, new_run_id(store, profile.device), endpoint)
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
    place, run_id = probe_model(
        options.model, profile, options.store, hub_name=options.hub, quiet=options.quiet
    )
    return _print_probe(place, run_id)


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
