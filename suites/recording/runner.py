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
from suites.recording.skipping import ATTRIBUTE, explain, explain_collection


def explained(collector: pytest.Collector, report: pytest.CollectReport) -> pytest.CollectReport:
    """The report, with the facts of its skip if it is one."""
    if report.skipped:
        setattr(report, ATTRIBUTE, explain_collection(collector, report))
    return report


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
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the exception itself, and why a test was skipped: the report has only text."""
        before = call.excinfo
        report = yield
        if self._current:
            if (raised := before or call.excinfo) is not None:
                self._current.raised(call.when, raised.value)
            if report.skipped:
                facts = explain(item, report, (before, call.excinfo), self._current.root)
                self._current.skipped(report, facts)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Keep why a file or class was skipped while it was collected."""
        return explained(collector, (yield))

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
