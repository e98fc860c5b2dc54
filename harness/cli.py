"""The command ``harness``: reads the arguments, calls the part that does the work, says what went wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import (
    __version__,
    commands,
    db_commands,
    diff_commands,
    expectation_commands,
    gaps_commands,
    suites_commands,
    zoo_commands,
)
from harness.arguments import add_command
from harness.errors import ExitCode, HarnessError
from harness.profiles import ENGINES, SUITES
from harness.repro.command import repro
from results.document import HTML
from results.events import NO_ROOM, LogWriteError
from results.layout import StoreError
from results.plan import PlanError
from results.selectors import HELP as RUN_HELP
from results.unlock import By
from results.vocabulary import DELIBERATE
from suites.upstream.fetch import REPOSITORY

FORMATS = ("table", "json", "csv", "md")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the process's exit status."""
    options = parser().parse_args(arguments)
    try:
        return int(options.function(options))
    except HarnessError as error:
        return _refuse(str(error), error.exit_code)
    except (StoreError, PlanError) as error:
        return _refuse(str(error), ExitCode.USAGE)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone, e.g. `harness report | head`
        return ExitCode.OK
    except KeyboardInterrupt:
        return _refuse("interrupted", ExitCode.INCOMPLETE)
    except OSError as error:
        if error.filename is None and error.errno not in NO_ROOM and not isinstance(error, LogWriteError):
            raise
        return _refuse(_about_file(error), ExitCode.DEVICE)


def _about_file(error: OSError) -> str:
    """What the operating system says, and of which file."""
    named = str(error.filename) if error.filename else ""
    said = error.strerror or str(error)
    if error.errno in NO_ROOM:
        said += "; make room, or choose another --store"
    return f"{named}: {said}" if named and named not in said else said


def _refuse(sentence: str, code: ExitCode) -> int:
    print(f"harness: {sentence}", file=sys.stderr)
    return int(code)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    root = argparse.ArgumentParser(
        prog="harness", description="Conformance and coverage of PyTorch devices: run a night, read it."
    )
    root.add_argument("--version", action="version", version=f"harness {__version__}")
    children = root.add_subparsers(metavar="COMMAND", required=True)
    _add_runs(children)
    _add_readers(children)
    _add_repro(children)
    _add_expectations(children)
    _add_audit(children)
    _add_tools(children)
    _add_suites(children)
    zoo_commands.add_group(children)
    db_commands.add_group(children)
    return root


def _add_runs(children: Any) -> None:
    nightly = add_command(children, "nightly", commands.nightly, "run a profile and print what it found")
    _selection(nightly)
    _quiet(nightly)
    _format(nightly)
    run = add_command(children, "run", commands.run, "run one suite whole and print what it found")
    run.add_argument("--suite", required=True, choices=SUITES, help="the suite")
    _selection(run, profile="", note="the profile of the suite's name, else default")
    _quiet(run)
    _format(run)
    resume = add_command(children, "resume", commands.resume, "go on with a run that was cut short")
    resume.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="id of the run (default: the latest that was cut short)",
    )
    _engine(resume)
    resume.add_argument("--workers", type=_count, help="processes at a time, if other than it began with")
    _quiet(resume)
    _format(resume)
    for child in (nightly, run, resume):
        _gate(child)
        child.add_argument(
            "--junit", type=Path, metavar="FILE", help="write the results there as JUnit XML, too"
        )
    plan = add_command(children, "plan", commands.plan, "print what a profile would run, without running it")
    _selection(plan)
    _format(plan)
    probe = add_command(children, "probe", commands.probe, "run one model and print where it gets to")
    probe.add_argument(
        "model",
        metavar="MODEL",
        help="org/name, org/name@revision, a folder with a model, or a .py file that makes one",
    )
    probe.add_argument("--profile", default="default", help="profile whose deadlines and seed to use")
    probe.add_argument("--device", help="torch device type (default: the profile's)")
    _remote_code(probe)
    probe.add_argument("--hub", help="'embedded' or a Hub URL (default: $HF_ENDPOINT, the mirror, the Hub)")
    _quiet(probe)


def _add_readers(children: Any) -> None:
    report = add_command(children, "report", commands.report, "print the scoreboard of a run")
    gaps = add_command(
        children, "gaps", gaps_commands.gaps, "list the operators that fell back, most wanted first"
    )
    skips = add_command(children, "skips", commands.skips, "list why cases were skipped, uncategorised first")
    for child, formats in ((report, (*FORMATS, HTML, commands.JUNIT)), (gaps, FORMATS), (skips, FORMATS)):
        child.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP} (default: latest)")
        _format(child, formats)
    _out(report)
    _gate(report, default=False)
    _add_diff(children)
    gaps.add_argument("--limit", type=_count, default=20, help="at most so many rows; 0 is all (default: 20)")
    how = gaps.add_mutually_exclusive_group()
    how.add_argument("--dtypes", action="store_true", help="a row for each operator and dtype")
    how.add_argument(
        "--unlock", type=_count, metavar="K", help="say which K operators to lower next and what that frees"
    )
    gaps.add_argument("--by", choices=[*By], default=By.MODELS, help="what to free most of (default: models)")
    gaps.add_argument("--with", dest="given", metavar="OP,…", help="count these operators as lowered already")
    board = add_command(children, "dashboard", commands.dashboard, "serve the dashboard until interrupted")
    board.add_argument("--port", type=_port, default=8501, help="TCP port (default: 8501)")


def _add_diff(children: Any) -> None:
    text = "say what changed from one run to another"
    diff = add_command(children, "diff", diff_commands.diff, text)
    diff.add_argument("before", nargs="?", metavar="A", help=f"{RUN_HELP} (default: previous)")
    diff.add_argument("after", nargs="?", metavar="B", help=f"{RUN_HELP} (default: latest)")
    diff.add_argument(
        "--examples",
        type=_count,
        default=5,
        help="at most so many cases of a class, and signatures; 0 is all (default: 5)",
    )
    form = diff.add_mutually_exclusive_group()
    _format(form, (*FORMATS, HTML))
    for flag, name in (("--json", "json"), ("--markdown", "md")):
        form.add_argument(
            flag, dest="format", action="store_const", const=name, help=f"the same as --format {name}"
        )
    form.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained HTML file there")
    _out(diff)
    diff.add_argument(
        "--gate", action="store_true", help="exit 1 if something got worse, 3 if B is incomplete"
    )


def _out(child: argparse.ArgumentParser) -> None:
    child.add_argument("--out", type=Path, metavar="FILE", help="write it there (default: print it)")


def _add_repro(children: Any) -> None:
    text = "print a command, and a script, that show one case of a run again"
    case = add_command(children, "repro", repro, text)
    case.add_argument("case", metavar="ID", help="id of the case")
    case.add_argument("--run", metavar="RUN", help="id of the run (default: the latest)")
    case.add_argument(
        "--output", type=Path, metavar="FILE", help="write the script there (default: print it)"
    )


def _add_expectations(children: Any) -> None:
    text = "keep the files true that say what is known to fail"
    root = children.add_parser("expectations", help=text, description=text)
    actions = root.add_subparsers(metavar="ACTION", required=True)
    update = add_command(
        actions,
        "update",
        expectation_commands.update,
        "take out what passes now, add new failures; print the diff",
    )
    update.add_argument("--from", dest="run", required=True, metavar="RUN", help="id of a complete run")
    update.add_argument(
        "--file", type=Path, help="where new entries go (default: the profile's, else the device's)"
    )
    update.add_argument("--category", choices=DELIBERATE, help="of failures whose message tells none")
    update.add_argument("--accept-regressions", action="store_true", help="declare what passed before, too")
    update.add_argument("--drop-globs", action="store_true", help="take out globs all of whose cases passed")
    update.add_argument("--dry-run", action="store_true", help="print the diff and change nothing")
    check = add_command(actions, "check", expectation_commands.check, "list the entries that decide nothing")
    check.add_argument(
        "--from", dest="run", metavar="RUN", help="a run's plan (default: what the profile selects)"
    )
    _selection(check)


def _add_audit(children: Any) -> None:
    text = "run what a run skipped, and what is expected to fail, and say what is still true"
    audit = add_command(children, "audit", expectation_commands.audit, text)
    audit.add_argument("run", nargs="?", metavar="RUN", help="id of the run (default: the latest)")
    audit.add_argument("--filter", metavar="GLOB", default="*", help="cases whose id matches")
    audit.add_argument(
        "--limit", type=_count, default=0, help="at most so many cases, audited longest ago first; 0 is all"
    )
    _quiet(audit)
    _format(audit)


def _add_tools(children: Any) -> None:
    doctor = add_command(children, "doctor", commands.doctor, "check everything a run needs")
    doctor.add_argument("--device", default="neuron", help="torch device type (default: neuron)")
    doctor.add_argument("--hub", default="embedded", help="'embedded' or a Hub URL")
    _format(doctor)
    ingest = add_command(
        children, "ingest", commands.ingest, "take run folders, such as pytest's, into the store"
    )
    ingest.add_argument("folders", nargs="*", type=Path, metavar="DIR", help="folders with a plan.json")
    ingest.add_argument(
        "--rebuild", action="store_true", help="make the database anew from every run in the store"
    )


def _add_suites(children: Any) -> None:
    suites = children.add_parser("suites", help="PyTorch's own test files: fetch, list, accept")
    group = suites.add_subparsers(metavar="COMMAND", required=True)
    fetch = add_command(group, "fetch", suites_commands.fetch, "bring the test files of the installed torch")
    where = fetch.add_mutually_exclusive_group()
    where.add_argument(
        "--torch-version", metavar="V", help="a release, e.g. 2.13.0 (default: the installed torch's)"
    )
    where.add_argument(
        "--from", dest="source", type=Path, metavar="DIR", help="use a checkout, or a folder of tests"
    )
    fetch.add_argument("--url", default=REPOSITORY, help=f"git repository (default: {REPOSITORY})")
    fetch.add_argument(
        "--allow-mismatch", action="store_true", help="take files that are not those of the installed torch"
    )
    listing = add_command(group, "list", suites_commands.list_files, "list the test files, by family")
    listing.add_argument("--family", help="only this family's")
    listing.add_argument("--device", help="whose last run's counts to show (default: any device's)")
    _format(listing)
    accept = add_command(
        group,
        "accept",
        suites_commands.accept,
        "take the number of tests a run collected as right",
    )
    accept.add_argument("run", metavar="RUN", help="id of a complete run")


def _selection(child: argparse.ArgumentParser, profile: str = "default", note: str = "default") -> None:
    child.add_argument(
        "--profile",
        default=profile,
        metavar="NAME",
        help=f"what to run: one of the package's or of harness.toml (default: {note})",
    )
    child.add_argument("--device", help="torch device type")
    _engine(child)
    child.add_argument("--hub", help="'embedded' or a Hub URL such as https://huggingface.co")
    child.add_argument(
        "--catalog", metavar="FILE", help="take the models from this snapshot, one run for each class of them"
    )
    child.add_argument(
        "--fresh", action="store_true", help="run models of a catalog that nothing changed for, too"
    )
    child.add_argument(
        "--models", type=_count, help="at most so many models, most downloaded first; 0 is all"
    )
    child.add_argument("--model-filter", metavar="GLOB", help="models whose id matches")
    _remote_code(child)
    child.add_argument("--test-filter", metavar="GLOB", help="test cases whose id matches")
    if profile:
        child.add_argument("--suites", metavar="LIST", help=f"comma-separated: {', '.join(SUITES)}")
    child.add_argument(
        "--upstream-families", metavar="LIST", help="comma-separated families of suite upstream"
    )
    child.add_argument(
        "--upstream-files", metavar="LIST", help="comma-separated files or patterns of suite upstream"
    )
    child.add_argument("--workers", type=_count, help="processes at a time; 0 is one a core")
    child.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="any other field of the profile, e.g. deadlines.compile=60",
    )


def _remote_code(child: argparse.ArgumentParser) -> None:
    child.add_argument(
        "--allow-remote-code",
        action="append",
        metavar="ID@REVISION",
        help="let this model at this commit run its own code, locked in; may be given again",
    )


def _engine(child: argparse.ArgumentParser) -> None:
    child.add_argument("--engine", choices=ENGINES, help="where batches run (default: the profile's)")


def _gate(child: argparse.ArgumentParser, *, default: bool = True) -> None:
    gate = child.add_mutually_exclusive_group()
    what = {True: "exit 1 on regressions", False: "exit 0 on regressions; other codes stay"}
    if not default:
        what = {True: "exit as the run would", False: "exit 0 whatever the run came to"}
    for flag, value in (("--gate", True), ("--report-only", False)):
        said = what[value] + (" (default)" if value is default else "")
        gate.add_argument(flag, dest="gate", action="store_const", const=value, default=default, help=said)


def _quiet(child: argparse.ArgumentParser) -> None:
    child.add_argument("--quiet", action="store_true", help="no progress line")


def _format(child: argparse._ActionsContainer, formats: Sequence[str] = FORMATS) -> None:
    child.add_argument(
        "--format", type=_form, choices=formats, default="table", help="how to print (default: table)"
    )


def _form(name: str) -> str:
    """A format by its name, or by what people call it."""
    return {"terminal": "table", "markdown": "md"}.get(name, name)


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, not {text!r}")
    return int(text)


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"expected a TCP port from 1 to 65535, not {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
