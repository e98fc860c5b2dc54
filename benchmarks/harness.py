"""What the harness costs, beside the work it supervises.

    python benchmarks/harness.py [long] [processes] [many] [--cases 100000]

long       20 cases of 1 s each in one worker, against the same work in one bare process.
processes  100 cases that do nothing, each in a process of its own: milliseconds a case.
many       100,000 planned cases that do nothing: time to plan, run and ingest, peak memory of the supervisor.

The cases do nothing but what is said here; workers, logs, plan, limits and database are the real ones.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# Run as a script, this folder stands first on the path, and this file would be taken for the package.
sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import idle_jobs  # noqa: E402
from harness import local, processes  # noqa: E402
from harness.errors import ExitCode  # noqa: E402
from harness.gate import judge  # noqa: E402
from harness.history import history  # noqa: E402
from harness.job import ModelSettings  # noqa: E402
from harness.profiles import Profile, load_profile  # noqa: E402
from harness.progress import Progress  # noqa: E402
from harness.supervisor import Supervisor  # noqa: E402
from results.layout import run_path  # noqa: E402
from results.plan import Case, Plan, make_plan  # noqa: E402
from results.report import render_report  # noqa: E402
from results.scoreboard import scoreboard  # noqa: E402
from results.store import open_store  # noqa: E402
from results.tables import Format  # noqa: E402
from results.vocabulary import CaseKind, RunState  # noqa: E402

LONG_CASES, PROCESS_CASES = 20, 100


def planned(count: int) -> Plan:
    """A plan of so many cases."""
    names = (f"opinfo::bench::noop::{number:06}[float32]" for number in range(count))
    cases = [Case(id=name, kind=CaseKind.OPINFO) for name in names]
    return make_plan(run="bench", device="cpu", profile="bench", cases=cases)


def supervise(plan: Plan, store: Path, profile: Profile, job: Callable[..., None]) -> float:
    """Run a plan with ``job`` in its workers; seconds."""
    setattr(processes, "PRELOADED", ())  # noqa: B010 - torch is no part of what is measured
    setattr(local, "run_job", job)  # noqa: B010
    folder = run_path(store, plan.run)
    started = time.perf_counter()
    with Progress(plan.cases, stream=io.StringIO(), quiet=True) as progress:
        models = ModelSettings(endpoint="", cache=store, max_bytes=0, seed=0)
        engine = local.LocalEngine(profile.worker_count, profile.limits)
        supervisor = Supervisor(
            plan, folder, profile, models, {}, progress, engine, history(store, plan.device)
        )
        state, reason = supervisor.run()
    assert state is RunState.COMPLETE, reason
    return time.perf_counter() - started


def long(_cases: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = f"from benchmarks.idle_jobs import spin\nfor _ in range({LONG_CASES}): spin()"
        bare = [sys.executable, "-c", script]
        started = time.perf_counter()
        subprocess.run(bare, check=True, cwd=sys.path[0])
        alone = time.perf_counter() - started
        profile = load_profile("default", {"workers": 1, "batch": LONG_CASES, "batch_seconds": 1000})
        supervised = supervise(planned(LONG_CASES), Path(folder), profile, idle_jobs.busy)
    cost = supervised / alone - 1
    print(f"{LONG_CASES} cases of 1 s: bare {alone:.2f} s, supervised {supervised:.2f} s: {cost:+.1%}")


def each_alone(_cases: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        profile = load_profile("default", {"workers": 1, "batch": 1})
        seconds = supervise(planned(PROCESS_CASES), Path(folder), profile, idle_jobs.idle)
    print(f"{PROCESS_CASES} processes, one after the other: {seconds / PROCESS_CASES * 1e3:.1f} ms a case")


def many(cases: int) -> None:
    """In a process of its own, so that its peak memory is the supervisor's alone."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure-many", str(cases)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    steps = ("plan", "run", "ingest")
    times = ", ".join(f"{step} {found[step]:.1f} s" for step in steps)
    print(f"{cases} cases: {times}, together {sum(found[step] for step in steps):.1f} s")
    steps = ("supervisor", "peak", "reported")
    run, ingest, report = (f"{found[step]:.0f} MB" for step in steps)
    print(
        f"peak memory of the supervisor: {run}, with the ingest {ingest}, with the report after it {report}"
    )
    print(f"peak memory of the process that ingests: {found['database']:.0f} MB")


def measure_many(cases: int) -> None:
    import harness.nightly  # noqa: F401 - what a night imports is part of its memory

    with tempfile.TemporaryDirectory() as name:
        store = Path(name)
        started = time.perf_counter()
        plan = planned(cases)
        plan.save(run_path(store, plan.run))
        made = time.perf_counter() - started
        profile = load_profile("default", {"batch": 1000, "batch_seconds": 1000})
        ran = supervise(plan, store, profile, idle_jobs.idle)
        supervisor = idle_jobs.peak_megabytes()
        started = time.perf_counter()
        database = processes.call(idle_jobs.take_in_and_measure, store, plan.run)
        took = time.perf_counter() - started
        peak = idle_jobs.peak_megabytes()
        with open_store(store) as reader:
            assert judge(reader, plan.run).code is ExitCode.OK
            render_report(scoreboard(reader, plan.run), Format.TABLE)
    times = {"plan": made, "run": ran, "ingest": took}
    memory = {"supervisor": supervisor, "peak": peak, "reported": idle_jobs.peak_megabytes()}
    print(json.dumps({**times, **memory, "database": database}))


PARTS = {"long": long, "processes": each_alone, "many": many}


def main() -> None:
    """Run the parts that were asked for; all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=PARTS, help="default: all")
    parser.add_argument("--cases", type=int, default=100_000, help="planned cases of part `many`")
    parser.add_argument("--measure-many", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure_many:
        measure_many(arguments.measure_many)
        return
    for part in arguments.parts or PARTS:
        PARTS[part](arguments.cases)


if __name__ == "__main__":
    main()
