"""``--harness-job FILE``: runs just the tests of one batch of a supervised run and logs them into it."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from results.events import CANNOT_LOG_EXIT, Ended, Entered, EventLog, LogWriteError
from results.vocabulary import Outcome, Stage
from suites.lifeline import die_with_parent
from suites.recording.names import Naming
from suites.recording.outcome import TestRecord, collection_ended, ended_without_running
from suites.recording.runner import Runner, explained


class Supervised(Runner):
    """Records the tests of a job, in the job's order, under the ids that the plan gave them.

    The job's file is JSON: ``log`` (path), ``attempt``, and ``cases``: ``[{"id", "nodeid", "collection"}]``.
    """

    def __init__(self, path: Path, naming: Naming) -> None:
        die_with_parent()
        job: Mapping[str, Any] = json.loads(path.read_text())
        super().__init__(path.parent, "job", naming)
        self._attempt = int(job["attempt"])
        self._ids = {c["nodeid"]: c["id"] for c in job["cases"] if not c["collection"]}
        self._collections = {c["nodeid"]: c["id"] for c in job["cases"] if c["collection"]}
        self._log = EventLog(Path(job["log"]))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """The plan has fixed the ids; a test that is not collected any more gets its result here."""
        collected = {item.nodeid for item in session.items}
        for nodeid, case in self._ids.items():
            if nodeid not in collected:
                self._write_gone(case, nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the job's tests, in the job's order."""
        order = {nodeid: index for index, nodeid in enumerate(self._ids)}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in order])
        items[:] = sorted(
            (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """A file or class that is a case of the job: its collection is the test."""
        case = self._collections.get(collector.nodeid)
        if case is None:
            return (yield)
        assert self._log is not None
        self._log.write(Entered(case=case, attempt=self._attempt, stage=Stage.TEST))
        report = explained(collector, (yield))
        self._log.write(self._collection_ended(case, report))
        return report

    def _collection_ended(self, case: str, report: pytest.CollectReport) -> Ended:
        if not report.passed:
            return collection_ended(case, [report], attempt=self._attempt)
        message = "it can be collected now, and its tests are not in this plan"
        return ended_without_running(case, self._attempt, Outcome.PASSED, message)

    def _write_gone(self, case: str, nodeid: str) -> None:
        assert self._log is not None
        self._log.write(Entered(case=case, attempt=self._attempt, stage=Stage.TEST))
        message = "it was collected when the run was planned, and is not collected now"
        facts = {"nodeid": nodeid}
        self._log.write(
            ended_without_running(case, self._attempt, Outcome.COLLECTION_ERROR, message, facts=facts)
        )

    def _record(self, item: pytest.Item) -> TestRecord:
        return TestRecord(self._ids[item.nodeid], self._attempt, item.config.rootpath)

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """A log that cannot be written ends the session with an exit code of its own."""
        if isinstance(excinfo.value, LogWriteError):
            print(excinfo.value, file=sys.stderr, flush=True)
            raise SystemExit(CANNOT_LOG_EXIT)
