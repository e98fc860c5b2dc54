"""Fixtures of the suites' tests."""

from __future__ import annotations

from pathlib import Path

import pandas  # noqa: F401 - see below
import pytest

import suites
from results.events import Ended, read_log
from results.plan import load_plan

# pytester forgets after each test what was imported in it. DuckDB imports pandas when it is first needed, and
# a second copy of pandas does not know the first one's types; so it is imported here, before any test.

ROOT = Path(suites.__file__).parents[1]


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Samples are tiny; threads only get into the way of other tests."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Recorded:
    """A run's folder, read back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan = load_plan(folder)
        self.logs = {
            path.stem: [record.event for record in read_log(path)]
            for path in (folder / "events").glob("*.jsonl")
        }
        self.events = [event for log in self.logs.values() for event in log]

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def ended(self, test):
        """The one result of the test whose id ends so."""
        (found,) = [event for event in self.of(Ended) if event.case.endswith(test)]
        return found

    @property
    def outcomes(self):
        return {event.case: event.outcome for event in self.of(Ended)}


@pytest.fixture
def record(pytester, monkeypatch):
    """Run pytest in a process of its own, with the plugin and xdist and nothing else."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(*arguments, log="log", timeout=60):
        plugins = ("-p", "xdist.plugin", "-p", "suites.pytest_plugin")
        result = pytester.runpytest_subprocess(*plugins, "--harness-log", log, *arguments, timeout=timeout)
        return result, Recorded(pytester.path / log)

    return run


@pytest.fixture
def on_device(monkeypatch):
    """Make an operator do something else on the device than on the CPU; gives a case of it.

    ``which`` is what changes: ``op`` or ``inplace_variant``.
    """
    from suites.opinfo.entries import operators
    from tests.suites.opinfo_cases import case_of
    from tests.suites.opinfo_faults import other_on_device

    def change(op, wrong, dtype="float32", check="forward", which="op"):
        other_on_device(monkeypatch, operators()[op], which, wrong)
        return case_of(op, dtype, check)

    return change
