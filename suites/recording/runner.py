"""The part of the plugin in the process that runs tests: one log, ``Entered`` before, ``Ended`` after."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from results.events import Entered, EventLog, WorkerStarted
from results.plan import EVENTS_DIR
from results.vocabulary import Stage
from suites.recording.names import Naming
from suites.recording.outcome import TestRecord


class Runner:
    """Records the tests of this process into ``events/<worker>.jsonl``."""

    def __init__(self, folder: Path, worker: str, naming: Naming) -> None:
        self.worker = worker
        self._path = folder / EVENTS_DIR / f"{worker}.jsonl"
        self._naming = naming
        self._ids: dict[str, str] = {}
        self._attempts: Counter[str] = Counter()
        self._log: EventLog | None = None
        self._current: TestRecord | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Fix the ids of everything collected; every worker of a run collects the same."""
        self._ids = self._naming.ids(item.nodeid for item in session.items)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Write ``Entered``, let the test run, write ``Ended``.

        A test that does not return (a crash, an interrupt) has an ``Entered`` and no ``Ended``.
        """
        log = self._open()
        self._current = self._record(item)
        log.write(Entered(case=self._current.case, attempt=self._current.attempt, stage=Stage.TEST))
        try:
            result = yield
            log.write(self._current.ended())
        finally:
            self._current = None
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[Any]) -> Generator[None, object, object]:
        """Keep the exception itself: the report has only its text."""
        if self._current and call.excinfo:
            self._current.raised(call.when, call.excinfo.value)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep each report of the running test."""
        if self._current:
            self._current.reports.append(report)

    def pytest_unconfigure(self) -> None:
        """Close the log."""
        if self._log:
            self._log.close()

    def _record(self, item: pytest.Item) -> TestRecord:
        case = self._ids[item.nodeid]
        self._attempts[case] += 1
        return TestRecord(case, self._attempts[case], item.config.rootpath)

    def _open(self) -> EventLog:
        if self._log is None:
            self._log = EventLog(self._path)
            self._log.write(WorkerStarted(worker=self.worker, pid=os.getpid(), cases=len(self._ids)))
        return self._log
