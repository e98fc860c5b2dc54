"""Models that bring their own code: allowed one by one, at one commit, and run in a locked-in process.

The process is a program of its own. While it still has the network it forks a helper, which does nothing
but fetch the repositories of its cases when it is told to; then it locks itself in and works as any worker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import sys
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.child import ChildProcess
from harness.job import Job
from harness.lockin import LockInError, lock_in
from results.plan import Case
from suites.lifeline import die_with_parent

REMOTE_CODE = "remote_code"
"""Set in the spec of a case whose model may run its own code."""

SANDBOX_DIR = "sandbox"
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN")


def allowed(case: Case, pinned: tuple[str, ...]) -> Case:
    """The case, marked if its model at its commit is one of those that may run their own code."""
    if f"{case.spec.get('repo_id')}@{case.spec.get('revision')}" not in pinned:
        return case
    return dataclasses.replace(case, spec={**case.spec, REMOTE_CODE: True})


def start(job: Job, output: Connection) -> ChildProcess:
    """Start a job in a process that locks itself in before it loads anything."""
    folder = job.folder / SANDBOX_DIR / job.worker
    (folder / "scratch").mkdir(parents=True, exist_ok=True)
    job.log.parent.mkdir(parents=True, exist_ok=True)
    job.log.touch()  # Only this one file of the run may be written by what is locked in.
    path = folder / "job.pickle"
    path.write_bytes(pickle.dumps(job))
    command = [sys.executable, "-m", "harness.sandbox", str(path)]
    return ChildProcess(command, output, job.environment, job.folder)


def main(path: Path) -> None:
    """Run a job that :func:`start` wrote."""
    job: Job = pickle.loads(path.read_bytes())
    die_with_parent()
    scratch = path.parent / "scratch"
    here, there = Pipe()
    if os.fork() == 0:
        here.close()
        _fetch_when_told(job, there)
        os._exit(0)
    there.close()
    _forget_tokens(scratch)
    refusal = ""
    try:
        lock_in(scratch, [job.log], Path.home())
    except LockInError as error:
        refusal = str(error)
    from harness import fetching
    from harness.worker import run_cases

    fetching.deputy = fetching.Deputy(here, refusal)
    run_cases(dataclasses.replace(job, compiler_cache=scratch / "compiler"))


def _forget_tokens(scratch: Path) -> None:
    """Set what libraries read when they are imported: no token, and new files go to the scratch folder."""
    for name in _TOKENS:
        os.environ.pop(name, None)
    os.environ |= {
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TMPDIR": str(scratch),
        "XDG_CACHE_HOME": str(scratch / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_MODULES_CACHE": str(scratch / "modules"),
    }


def _fetch_when_told(job: Job, orders: Connection) -> None:
    """Fetch the repository of the case whose number is told, and no other; keeps the network."""
    die_with_parent()
    from model_zoo.fetch import FetchError, fetch

    while True:
        try:
            spec: Mapping[str, Any] = job.cases[int(orders.recv())].spec
        except (EOFError, OSError, ValueError, IndexError):
            return
        try:
            answer: Path | tuple[str, str] = fetch(
                spec["repo_id"],
                spec["revision"],
                job.models.cache,
                job.models.endpoint,
                max_bytes=job.models.max_bytes or None,
                budget=job.models.max_cache_bytes,
                with_code=True,
                hold=True,
            )
        except FetchError as error:
            answer = error.reason.value, str(error)
        with contextlib.suppress(OSError):
            orders.send(answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
