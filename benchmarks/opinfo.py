"""Checks a second of suite ``opinfo`` against upstream's own operator tests, run by plain pytest.

    harness suites fetch
    python -m benchmarks.opinfo [--from DIR] [--ops 40] [--dtypes float32,bfloat16] [--device neuron]

Both sides run the same operators and dtypes on the same device with two processes, from the command to its
end:

- the harness: ``harness run --suite opinfo``, planning, recording and ingest included; once with all checks
  and once without ``compile``, for which upstream's files have no counterpart and which alone takes longer
  than all others;
- upstream: ``pytest -n 2`` of ``test_ops.py`` and ``test_ops_gradients.py`` in DIR (a checkout's ``test``
  folder or its parent), of which only the tests of these operators and dtypes are selected, by node id.

A check counts if it ran: what is skipped, or a pair that op_db does not list, counts on neither side.
Operators are every n-th of op_db's, so that all kinds are among them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from harness.planning import suite_environment
from results.store import open_store
from suites.opinfo.checks import CHECKS
from suites.opinfo.entries import operators

FILES = ("test_ops.py", "test_ops_gradients.py")
PROCESSES = 2
NOT_RUN = ("unsupported", "skipped_upstream", "skipped_backend", "not_run")


def chosen_operators(count: int) -> list[str]:
    """Every n-th operator of op_db, by name."""
    names = sorted(operators())
    return names[:: max(1, len(names) // count)][:count]


def run_harness(
    ops: Sequence[str], dtypes: Sequence[str], device: str, checks: Sequence[str], scratch: Path
) -> tuple[Counter[str], float]:
    """Outcomes of these checks, and wall-clock seconds."""
    selection, store = scratch / "ops.toml", scratch / f"store-{len(checks)}"
    selection.write_text("[ops]\nchosen = " + json.dumps(list(ops)) + "\n")
    settings = {
        "opinfo_selection": str(selection),
        "opinfo_dtypes": list(dtypes),
        "opinfo_databases": ["op_db"],
        "opinfo_checks": list(checks),
        "workers": PROCESSES,
    }
    command = [sys.executable, "-m", "harness.cli", "run", "--suite", "opinfo", "--device", device]
    command += ["--store", str(store), "--report-only", "--quiet"]
    command += [f"--set={name}={json.dumps(value)}" for name, value in settings.items()]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    with open_store(store) as results:
        rows = results.query_rows("SELECT outcome, count(*) AS cases FROM v_cases GROUP BY outcome")
    return Counter({row["outcome"]: row["cases"] for row in rows}), seconds


def run_upstream(
    folder: Path, ops: Sequence[str], dtypes: Sequence[str], device: str, scratch: Path
) -> tuple[Counter[str], float]:
    """Results of upstream's tests of the same operators and dtypes, and wall-clock seconds."""
    environment = {**os.environ, **suite_environment(device)}
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest"]
    pytest += ["-c", os.devnull, f"--rootdir={folder}"]
    listed = subprocess.run(
        [*pytest, "--collect-only", *FILES], cwd=folder, env=environment, capture_output=True, text=True
    ).stdout.splitlines()
    ends = "|".join(re.escape(op.replace(".", "_")) for op in ops)
    wanted = re.compile(rf"::test_\w+?_(?:{ends})_{device}_(?:{'|'.join(dtypes)})$")
    ids = [line for line in listed if wanted.search(line)]
    if not ids:
        sys.exit(f"{folder} has no test of these operators for {device}: {' '.join(listed[-3:])}")
    (scratch / "ids").write_text("\n".join(ids))
    report = scratch / "upstream.xml"
    command = [*pytest, "-n", str(PROCESSES), f"--junitxml={report}", f"@{scratch / 'ids'}"]
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    return Counter(_result(case) for case in ElementTree.parse(report).iter("testcase")), seconds


def _result(case: ElementTree.Element) -> str:
    for name in ("skipped", "failure", "error"):
        if case.find(name) is not None:
            return name
    return "passed"


def main() -> None:
    """Measure both and print checks, seconds and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--from", dest="folder", type=Path, help="upstream's tests (default: only the harness)"
    )
    parser.add_argument("--ops", type=int, default=40)
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--device", default="neuron")
    options = parser.parse_args()
    ops, dtypes = chosen_operators(options.ops), options.dtypes.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        ours = {}
        for name, checks in (
            ("all checks", list(CHECKS)),
            ("but compile", [check for check in CHECKS if check != "compile"]),
        ):
            outcomes, seconds = run_harness(ops, dtypes, options.device, checks, Path(scratch))
            ran = sum(outcomes.values()) - sum(outcomes[outcome] for outcome in NOT_RUN)
            ours[name] = _say(name, outcomes, ran, seconds)
        if options.folder is None:
            return
        nested = options.folder / "test"
        folder = (nested if nested.is_dir() else options.folder).resolve()
        found, seconds = run_upstream(folder, ops, dtypes, options.device, Path(scratch))
        theirs = _say("upstream", found, sum(found.values()) - found["skipped"], seconds)
        print("ratio       " + ", ".join(f"{rate / theirs:.1f} {name}" for name, rate in ours.items()))


def _say(name: str, outcomes: Counter[str], ran: int, seconds: float) -> float:
    listed = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    print(
        f"{name:11} {ran} checks ran in {seconds:.1f} s: {ran / seconds:.1f} a second  ({listed})", flush=True
    )
    return ran / seconds


if __name__ == "__main__":
    main()
