"""pytest in a supervised run: collected once, for the plan, and run in batches by child processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.child import ChildProcess
from harness.errors import InfrastructureError, UsageError
from harness.job import Job
from harness.processes import describe_exit
from results.plan import Case
from results.vocabulary import CaseKind
from suites import upstream
from suites.recording.names import DEFAULT_SUITE, Naming

AUDIT = "audit"
"""Set in the spec of a case that is to run although it is marked as skipped or expected to fail."""

LIFTING: Mapping[str, str] = {"PYTORCH_TEST_WITH_SLOW": "1"}
"""Variables that lift what PyTorch skips by its environment."""

JOBS_DIR = "jobs"
_COLLECT_SECONDS = 1800
_LAST_LINES = 5
_USAGE_ERROR = 4
_PLUGINS = {upstream.NAME: "suites.upstream.plugin"}
"""Suites whose files are loaded by a plugin of ours and by no ``conftest.py`` or settings of theirs."""

GOOD_CODES = frozenset({0, 1, 2, 5})
"""Exit codes of a session that came to its end: tests passed, some failed, a file could not be collected,
no test was left (``pytest.ExitCode``; pytest itself is not imported here).
"""


_REPEATABLE = {"PYTHONHASHSEED": "0", "PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}
"""For processes of such a suite: sets of strings come out in one order, and equal failures say the same;
PyTorch would add the test's own name to each message, and wrap exceptions to name the sample.
"""


@dataclass(frozen=True, slots=True)
class Session:
    """How pytest is called for a device.

    Attributes:
        root: folder it runs in.
        device: torch device type under test.
        environment: variables that make suites see the device.
        suite: first part of the ids of its cases.
    """

    root: Path
    device: str
    environment: Mapping[str, str]
    suite: str = DEFAULT_SUITE

    @property
    def variables(self) -> Mapping[str, str]:
        """What is set for its processes."""
        return {**self.environment, **(_REPEATABLE if self.suite in _PLUGINS else {})}

    def command(self, *arguments: str) -> list[str]:
        """The command line: output for a log, nothing kept in the tree under test.

        Values stand in one word with their option: pytest looks for its root in every word that is a path.
        """
        plain = ["-q", "-p", "no:cacheprovider", "--color=no", f"--harness-device={self.device}"]
        plugin = _PLUGINS.get(self.suite)
        if plugin:
            plain += ["-p", plugin, f"--rootdir={self.root}", f"--config-file={os.devnull}", "--noconftest"]
        return [sys.executable, "-m", "pytest", *plain, f"--harness-suite={self.suite}", *arguments]


def collect(paths: Sequence[str], session: Session) -> list[Case]:
    """The cases that pytest collects from some paths below the session's root.

    Where pytest dies, it collects file by file; a file at which it dies is one case, which runs (and
    dies) as any other does.

    Raises:
        UsageError: a path does not exist, or pytest refuses the paths.
        InfrastructureError: pytest does not come to an end, or dies where there is no test file to blame.
    """
    missing = [path for path in paths if not (session.root / path.partition("::")[0]).exists()]
    if missing:
        raise UsageError(f"pytest_paths: {session.root / missing[0]} does not exist")
    try:
        return _collected(paths, session)
    except _DiedError as died:
        files = sorted({file for path in paths for file in _files(path, session.root)})
        if not files:
            raise InfrastructureError(
                f"pytest died ({died}) while it collected {', '.join(paths)}, "
                "where no file is named test_*.py or *_test.py"
            ) from None
        if [*paths] == files[:1]:
            (file,) = files
            return [whole_file(file, session)]
        return [case for file in files for case in collect([file], session)]


class _DiedError(Exception):
    """pytest died in a collection."""


def whole_file(file: str, session: Session) -> Case:
    """The case that stands for a file whose collection did not come to its end: collecting it is the test."""
    return _case({"id": _naming(session).collection(file), "nodeid": file, "collection": True}, session)


def _collected(paths: Sequence[str], session: Session) -> list[Case]:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "collected.json"
        try:
            done = subprocess.run(
                session.command("--collect-only", f"--harness-collect={found}", *paths),
                cwd=session.root,
                env={**os.environ, **session.variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_COLLECT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise InfrastructureError(
                f"pytest did not finish collecting {', '.join(paths)} within {_COLLECT_SECONDS} s"
            ) from None
        if done.returncode == _USAGE_ERROR:
            words = done.stdout.decode("utf-8", "replace").split("\n")[-_LAST_LINES:]
            raise UsageError(f"pytest refuses to collect {', '.join(paths)}: {' '.join(words).strip()}")
        if not found.exists():
            raise _DiedError(describe_exit(done.returncode))
        rows: list[dict[str, Any]] = json.loads(found.read_text())["cases"]
        return [_case(row, session) for row in rows]


def _case(row: Mapping[str, Any], session: Session) -> Case:
    spec = {"nodeid": row["nodeid"], "collection": row["collection"], "root": str(session.root)}
    if session.suite != DEFAULT_SUITE:
        spec["suite"] = session.suite
    return Case(id=row["id"], kind=CaseKind.PYTEST, spec=spec)


def _naming(session: Session) -> Naming:
    return Naming(session.suite, session.device)


def _files(path: str, root: Path) -> list[str]:
    """The test files that pytest's default patterns find below a path."""
    place = root / path.partition("::")[0]
    if place.is_file():
        return [path.partition("::")[0]]
    names = [*place.rglob("test_*.py"), *place.rglob("*_test.py")]
    return [name.relative_to(root).as_posix() for name in names]


def start(job: Job, output: Connection) -> ChildProcess:
    """Start pytest on a job's tests; they are read from a file beside the run's logs."""
    spec = job.cases[0].spec
    session = Session(Path(spec["root"]), job.device, job.environment, spec.get("suite", DEFAULT_SUITE))
    path = job.folder / JOBS_DIR / f"{job.worker}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"id": case.id, "nodeid": case.spec["nodeid"], "collection": case.spec["collection"]}
        for case in job.cases
    ]
    path.write_text(json.dumps({"log": str(job.log), "attempt": job.attempt, "cases": rows}))
    files = dict.fromkeys(str(case.spec["nodeid"]).partition("::")[0] for case in job.cases)
    lifted = ["--harness-audit"] if job.cases[0].spec.get(AUDIT) else []
    command = session.command(
        "-p", "no:xdist", "--continue-on-collection-errors", f"--harness-job={path}", *lifted, *files
    )
    variables = {**session.variables, **(LIFTING if lifted else {})}
    return ChildProcess(command, output, variables, session.root)
