"""What a session of one of PyTorch's test files costs before its first test, by how many tests it is for.

    harness suites fetch
    python -m benchmarks.upstream_sessions test_unary_ufuncs.py test_ops.py
    python -m benchmarks.upstream_sessions --lists      # what a list of disabled tests costs each test

Processor seconds (user), which other load on the machine changes little; "whole" is a session that leaves out
nothing, and "start" one for a single test.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from harness.planning import suite_environment
from harness.pytest_sessions import Session, collect
from harness.upstream import current_source
from results.layout import default_store
from results.plan import Case
from suites import upstream

SIZES = (1, 100, 1000, 5000)
LISTED = 32_068
"""Entries of the longest list of disabled tests that a public backend keeps."""


def seconds_of(command: Sequence[str], session: Session) -> float:
    """User time of a command and what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(
        command, cwd=session.root, env={**os.environ, **session.variables}, stdout=subprocess.DEVNULL
    )
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def measure(file: str, session: Session, sizes: Sequence[int]) -> None:
    """Print a line for a file."""
    cases = sorted(collect([file], session), key=lambda case: case.id)
    whole = seconds_of(session.command("--collect-only", file), session)
    found = [f"{file}: {len(cases)} tests, whole {whole:.1f} s"]
    for size in (size for size in sizes if size < len(cases)):
        first = len(cases) // 3
        found.append(f"batch of {size} {session_for(cases[first : first + size], file, session):.1f} s")
    print(", ".join(found), flush=True)


def session_for(cases: Sequence[Case], file: str, session: Session) -> float:
    """User time of a session that collects a batch."""
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.json"
        rows = [{"id": case.id, **case.spec} for case in cases]
        job.write_text(json.dumps({"log": str(Path(folder) / "log.jsonl"), "attempt": 1, "cases": rows}))
        return seconds_of(session.command("--collect-only", f"--harness-job={job}", file), session)


def measure_lists() -> None:
    """Print what ``check_if_enable`` takes a test, going through a list and with an index."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as listed:
        entries = {f"test_op_{n}_neuron_float32 (module.Test{n % 50}NEURON)": ["", []] for n in range(LISTED)}
        json.dump(entries, listed)
        listed.flush()
        os.environ["DISABLED_TESTS_FILE"] = listed.name
        from torch.testing._internal import common_utils
    from suites.upstream.repeatable import index_test_lists

    class TestX(common_utils.TestCase):
        def test_a_neuron_float32(self) -> None:
            """Looked up."""

    test = TestX("test_a_neuron_float32")

    def milliseconds(times: int) -> float:
        started = time.process_time()
        for _ in range(times):
            common_utils.check_if_enable(test)
        return (time.process_time() - started) / times * 1000

    milliseconds(1)
    gone_through = milliseconds(20)
    index_test_lists()
    print(f"{LISTED} entries: {gone_through:.1f} ms a test, {milliseconds(2000):.3f} ms with an index")


def main() -> None:
    """Print one line per file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="names below the folder of tests")
    parser.add_argument(
        "--store", type=Path, default=default_store(), help="the store they were fetched into"
    )
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--lists", action="store_true")
    arguments = parser.parse_args()
    if arguments.lists:
        measure_lists()
    if arguments.files:
        root = Path(current_source(arguments.store).root)
        session = Session(root, arguments.device, suite_environment(arguments.device), upstream.NAME)
        for file in arguments.files:
            measure(file, session, arguments.sizes)


if __name__ == "__main__":
    main()
