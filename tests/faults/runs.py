"""Small runs through the real supervisor, and the three things that hold of every one of them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

import results
from harness import local, nightly
from harness.job import Job, ModelSettings
from harness.nightly import Run
from harness.profiles import Profile, load_profile
from harness.sites import LocalSite
from results.events import Entered, Event, WorkerEnded, WorkerStarted, read_log
from results.layout import run_path
from results.plan import EVENTS_DIR, PLAN_FILE, Case, Plan, make_plan
from results.vocabulary import CaseKind, Fate
from tests.faults import jobs
from tests.faults.quick import CPU

RUN = "r"
PREFIX = "opinfo::f::c::"
WAIT_SECONDS = 120.0
"""How long a test waits for something that takes a moment, on a machine however busy."""


def case_id(name: str) -> str:
    """The id of the case of a name."""
    return name if "::" in name else PREFIX + name


class SmallRun:
    """A run of cases that do what their names say.

    Args:
        store: folder of a store.
        names: last words of the cases' ids, see :mod:`tests.faults.jobs`; a whole id is one of a model.
        fields: of the profile.
    """

    def __init__(self, store: Path, *names: str, **fields: object) -> None:
        self.store = store
        self.folder = run_path(store, RUN)
        few = {"suites": ["opinfo"], "workers": 1, "attempts": 1, "device": "cpu"}
        self.profile: Profile = load_profile("default", {**few, **fields}, store)
        cases = [
            Case(id=case_id(name), kind=CaseKind.MODEL if "::" in name else CaseKind.OPINFO) for name in names
        ]
        self.plan: Plan = make_plan(
            run=RUN, device="cpu", profile="default", cases=cases, settings=self.profile.settings()
        )

    def supervise(self, job: Callable[[Job, Connection], None] = jobs.misbehave) -> Run:
        """Run what has no result yet, in this process."""
        local.run_job = job  # type: ignore[attr-defined]
        self.plan.save(self.folder)
        models = ModelSettings(endpoint="", cache=self.store, max_bytes=0, seed=os.getpid())
        place = LocalSite(self.profile)
        return nightly.supervise(self.plan, nightly.Setup(CPU, self.profile, self.store, models, place))

    def command(self, *, file_bytes: int = 0) -> subprocess.Popen[str]:
        """``harness resume`` of the run, in a process of its own."""
        if not (self.folder / PLAN_FILE).exists():
            self.plan.save(self.folder)
        return quick("resume", RUN, "--quiet", "--store", str(self.store), file_bytes=file_bytes)

    def events(self) -> Iterator[Event]:
        """Everything logged so far."""
        for log in sorted((self.folder / EVENTS_DIR).glob("*.jsonl")):
            for record in read_log(log):
                yield record.event

    def inside(self, name: str) -> int:
        """Process number of the worker that is in a case now, 0 if none is."""
        running = {}
        for event in self.events():
            if isinstance(event, WorkerStarted):
                running[event.worker] = event.pid
            elif isinstance(event, WorkerEnded):
                running.pop(event.worker)
        for worker, pid in running.items():
            last = self._last(worker)
            if isinstance(last, Entered) and last.case == PREFIX + name and alive(pid):
                return pid
        return 0

    def _last(self, worker: str) -> Event | None:
        log = self.folder / EVENTS_DIR / f"{worker}.jsonl"
        records = list(read_log(log)) if log.exists() else []
        return records[-1].event if records else None

    def children(self) -> list[int]:
        """Process numbers that workers' children left, see :data:`jobs.CHILDREN`."""
        path = self.folder / jobs.CHILDREN
        return [int(line) for line in path.read_text().split()] if path.exists() else []


def quick(*arguments: str, file_bytes: int = 0) -> subprocess.Popen[str]:
    """The command line with quick workers, in a process of its own that leads its session.

    Args:
        file_bytes: largest file that it and its workers can write; 0 is any.
    """

    def limit() -> None:
        if file_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    return subprocess.Popen(
        [sys.executable, "-m", "tests.faults.quick", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=Path(__file__).parents[2],
        preexec_fn=limit,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status of a command and everything it printed."""
    try:
        output, _ = process.communicate(timeout=WAIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, output


def account_for(
    run: SmallRun,
    hurt: Mapping[str, str] | None = None,
    deaths: Sequence[tuple[Fate, str]] = (),
    *,
    complete: bool = True,
) -> None:
    """Assert the three things: every planned case has one outcome; each worker that died has the fate,
    and died in the case, that is told; every case that is not told to be hurt passed.

    Args:
        hurt: outcomes by name, of the cases that did not pass.
        deaths: fates of workers with the name of the case they were in, ``""`` for none, in any order.
        complete: whether the run is shown as complete.
    """
    planned = [case.id for case in run.plan.cases]
    account(
        run.store,
        planned,
        {case_id(name): outcome for name, outcome in (hurt or {}).items()},
        [(fate, case_id(name) if name else "") for fate, name in deaths],
        complete=complete,
    )


def account(
    store: Path,
    planned: Sequence[str],
    hurt: Mapping[str, str],
    deaths: Sequence[tuple[Fate, str]],
    *,
    complete: bool = True,
) -> None:
    """The same of the latest run of a store, with whole ids."""
    with results.open(store) as reader:
        run = reader.latest_run()
        counts = reader.rows("v_outcomes", run=run)
        cases = reader.rows("v_cases", run=run)
        workers = reader.rows("v_workers", run=run, death=True)
        (state,) = reader.rows("v_completeness", run=run)
    assert sum(row["cases"] for row in counts) == len(planned)
    outcomes = {row["case_id"]: row["outcome"] for row in cases}
    assert outcomes == {case: hurt.get(case, "passed") for case in planned}
    died = Counter((Fate(row["fate"]), row["case_id"] or "") for row in workers)
    assert died == Counter(deaths), died
    assert state["complete"] is complete, state


def attempts_of(run: SmallRun, name: str) -> list[str]:
    """Outcomes of all recorded attempts of a case, in order; of a model those of its stages too."""
    with results.open(run.store) as store:
        rows = store.query_rows(
            "SELECT outcome FROM stage_results WHERE run = ? AND case_id = ? ORDER BY attempt, time",
            [RUN, case_id(name)],
        )
    return [row["outcome"] for row in rows]


def message_of(run: SmallRun, name: str) -> str:
    """The message of a case's result."""
    with results.open(run.store) as store:
        return str(store.rows("v_cases", run=RUN, case_id=case_id(name))[0]["message"])


def alive(pid: int) -> bool:
    """Whether a process runs; a dead one that nobody has reaped does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
