"""``--harness-collect FILE``: what a collection found, as cases, for a run that is planned from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suites.recording.names import Naming


class Collecting:
    """Writes the collected tests, and files and classes that could not be collected, as JSON.

    The file holds ``{"cases": [{"id", "nodeid", "file", "collection"}]}``; ``collection`` is true for what
    stands for a file or class that failed or was skipped while it was collected.
    """

    def __init__(self, path: Path, naming: Naming) -> None:
        self._path = path
        self._naming = naming
        self._not_collected: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what failed or was skipped."""
        if not report.passed:
            self._not_collected[self._naming.collection(report.nodeid)] = report.nodeid

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the file."""
        self._write([item.nodeid for item in session.items])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file where errors kept the collection from finishing."""
        if not self._path.exists():
            self._write([item.nodeid for item in session.items])

    def _write(self, nodeids: list[str]) -> None:
        cases = [
            {"id": case, "nodeid": nodeid, "file": nodeid.partition("::")[0], "collection": False}
            for nodeid, case in self._naming.ids(nodeids).items()
        ]
        cases += [
            {"id": case, "nodeid": nodeid, "file": nodeid.partition("::")[0], "collection": True}
            for case, nodeid in self._not_collected.items()
        ]
        self._path.write_text(json.dumps({"cases": cases}))
