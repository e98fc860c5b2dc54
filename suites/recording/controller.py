"""The part of the plugin in the process that steers: the plan, the run's beginning and end, deaths."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from results.events import Ended, Entered, EventLog, RunEnded, RunStarted, WorkerEnded, read_log
from results.plan import EVENTS_DIR, PLAN_FILE, Case, make_plan
from results.vocabulary import CaseKind, Fate, Outcome, RunState, Stage
from suites.recording.names import Naming
from suites.recording.outcome import collection_ended

PROFILE = "pytest"
LOG = "controller.jsonl"
_LAST_WORDS_SECONDS = 5
_DISTRIBUTION = "torchneuron-harness"


class Controller:
    """Writes the plan before the first test runs, and what only the steering process can know."""

    def __init__(self, folder: Path, naming: Naming, config: pytest.Config) -> None:
        if (folder / PLAN_FILE).exists():
            raise pytest.UsageError(
                f"--harness-log {folder}: a run is recorded there already; choose another"
            )
        self._folder = folder
        self._naming = naming
        self._config = config
        self._run = f"pytest-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}"
        self._collection: dict[str, list[pytest.CollectReport]] = {}
        self._ids: dict[str, str] = {}
        self._log: EventLog | None = None
        self._gone: set[str] = set()
        self._interrupt = ""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep files and classes that failed or were skipped at collection; they are cases too."""
        if not report.passed:
            self._collection.setdefault(self._naming.collection(report.nodeid), []).append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the plan; without xdist this process collects."""
        self._begin([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Write the plan when the first xdist worker has collected, before any is given a test."""
        self._begin(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """An xdist worker ended; if it died, so did the test it had entered."""
        worker = node.gateway.id
        if self._log is None or worker in self._gone:
            return
        self._gone.add(worker)
        if not error:
            self._log.write(WorkerEnded(worker=worker, fate=Fate.FINISHED))
            return
        code = _exit_code(node)
        killed = code < 0
        entered = self._open_case(worker)
        if entered:
            self._crashed(entered, worker, code)
        self._log.write(
            WorkerEnded(
                worker=worker,
                fate=Fate.SIGNALLED if killed else Fate.EXITED,
                signal=-code if killed else 0,
                exit_code=0 if killed else code,
                case=entered.case if entered else "",
                stage=entered.stage if entered else "",
            )
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
        """xdist gives a test up with its worker; if the test never began, it gets its result here."""
        case, worker = self._ids.get(crashitem), report.node.gateway.id
        if case is None or self._log is None or self._has_begun(case, worker):
            return
        entered = Entered(case=case, attempt=1, stage=Stage.TEST)
        self._log.write(entered)
        self._crashed(entered, worker, _exit_code(report.node))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Remember why the run ended early."""
        self._interrupt = f"{excinfo.typename}: {excinfo.value}".rstrip(": ")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write how the run ended; a run in which only collection failed is planned here."""
        if self._log is None and self._collection:
            self._begin([])
        if self._log is None:
            return
        if not self._config.pluginmanager.hasplugin("dsession"):
            self._log.write(
                WorkerEnded(worker="main", fate=Fate.INTERRUPTED if self._interrupt else Fate.FINISHED)
            )
        reason = self._interrupt or str(session.shouldfail or session.shouldstop or "")
        early = bool(reason) or exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
        state = RunState.INTERRUPTED if early else RunState.COMPLETE
        self._log.write(RunEnded(run=self._run, state=state, reason=reason))
        self._log.close()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the run was recorded, or that there was nothing to record."""
        if self._log is None:
            terminalreporter.write_line("harness: nothing was collected, so no run was recorded")
        else:
            terminalreporter.write_line(f"harness: recorded {len(self._ids)} tests in {self._folder}")

    def _begin(self, nodeids: Iterable[str]) -> None:
        self._ids = self._ids or self._naming.ids(nodeids)
        if self._log is not None or not (self._ids or self._collection):
            return
        names = sorted({*self._ids.values(), *self._collection})
        plan = make_plan(
            run=self._run,
            device=self._naming.device,
            profile=PROFILE,
            cases=[Case(id=name, kind=CaseKind.PYTEST) for name in names],
            settings={"suite": self._naming.suite},
        )
        plan.save(self._folder)
        self._log = EventLog(self._folder / EVENTS_DIR / LOG)
        self._log.write(
            RunStarted(
                run=self._run,
                plan_hash=plan.hash,
                planned=len(plan.cases),
                device=plan.device,
                profile=plan.profile,
                harness_version=_version(_DISTRIBUTION),
                environment=_environment(),
            )
        )
        for case, reports in sorted(self._collection.items()):
            self._log.write(Entered(case=case, attempt=1, stage=Stage.TEST))
            self._log.write(collection_ended(case, reports))

    def _events(self, worker: str) -> list[Any]:
        path = self._folder / EVENTS_DIR / f"{worker}.jsonl"
        return [record.event for record in read_log(path)] if path.exists() else []

    def _open_case(self, worker: str) -> Entered | None:
        """The test that a dead worker had entered and not left."""
        last: Entered | None = None
        for event in self._events(worker):
            if isinstance(event, Entered):
                last = event
            elif isinstance(event, Ended):
                last = None
        return last

    def _has_begun(self, case: str, worker: str) -> bool:
        return any(isinstance(event, Entered) and event.case == case for event in self._events(worker))

    def _crashed(self, entered: Entered, worker: str, code: int) -> None:
        assert self._log is not None
        self._log.write(
            Ended(
                case=entered.case,
                attempt=entered.attempt,
                stage=entered.stage,
                outcome=Outcome.CRASHED,
                seconds=0.0,
                message=f"the process {_how_it_ended(code)}",
                facts={"worker": worker},
            )
        )


def _exit_code(node: Any) -> int:
    """How an xdist worker's process ended, as ``subprocess`` says it: negative for a signal."""
    try:
        return int(node.gateway._io.popen.wait(timeout=_LAST_WORDS_SECONDS))
    except (AttributeError, subprocess.TimeoutExpired):  # a worker elsewhere, or one that only fell silent
        return 0


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exited with code {code} in the middle of the test"
    try:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"was ended by signal {-code}"


def _environment() -> dict[str, str]:
    """Versions, from the metadata of what is installed: nothing is imported to ask it."""
    named = {name: _version(name) for name in ("pytest", "pytest-xdist", "torch")}
    known = {name: version for name, version in named.items() if version != "unknown"}
    return {"python": platform.python_version(), "platform": platform.platform(), **known}


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"
