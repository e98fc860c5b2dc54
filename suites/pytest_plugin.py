"""The pytest plugin: ``pytest … --harness-log DIR`` records any pytest run into a run's folder.

``DIR`` gets ``plan.json`` and ``events/*.jsonl`` and can be ingested like any other run. With
pytest-xdist the controller writes the plan and each worker its own log, so that a worker that
dies leaves its results behind. Without the option nothing is imported and nothing is hooked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from suites.recording.names import DEFAULT_SUITE

_WORKER_KEY = "harness_log"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; they do nothing unless ``--harness-log`` is given."""
    group = parser.getgroup("harness", "recording into a harness run")
    group.addoption("--harness-log", metavar="DIR", help="record this run into DIR (made if it is missing)")
    group.addoption("--harness-collect", metavar="FILE", help="write what was collected into FILE, as JSON")
    group.addoption("--harness-job", metavar="FILE", help="run the tests of a supervised run's batch")
    group.addoption(
        "--harness-audit",
        action="store_true",
        help="run what is marked as skipped or expected to fail like any other test",
    )
    group.addoption(
        "--harness-device",
        metavar="NAME",
        default="cpu",
        help="torch device type under test; left out of case ids (default: cpu)",
    )
    group.addoption(
        "--harness-suite",
        metavar="NAME",
        default=DEFAULT_SUITE,
        help=f"first part of case ids (default: {DEFAULT_SUITE})",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorders that this process needs."""
    if config.getoption("--harness-audit"):
        from suites.recording.auditing import Auditing

        config.pluginmanager.register(Auditing(config), "harness-auditing")
    _serve_a_run(config)
    option = config.getoption("--harness-log")
    if not option or config.option.collectonly:
        return
    from suites.recording.controller import Controller
    from suites.recording.names import Naming
    from suites.recording.runner import Runner

    naming = _naming(config, Naming)
    worker_input: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker_input is not None:  # in an xdist worker
        folder = Path(worker_input[_WORKER_KEY])
        config.pluginmanager.register(Runner(folder, worker_input["workerid"], naming), "harness-runner")
        return
    folder = config.invocation_params.dir / option
    config.pluginmanager.register(Controller(folder, naming, config), "harness-controller")
    # Collects and runs tests only where there are no xdist workers to do it; silent otherwise.
    config.pluginmanager.register(Runner(folder, "main", naming), "harness-runner")


def _serve_a_run(config: pytest.Config) -> None:
    """Register what the harness itself asks for when it plans a run and when it runs a batch."""
    collect, job = config.getoption("--harness-collect"), config.getoption("--harness-job")
    if not collect and not job:
        return
    from results.events import CANNOT_LOG_EXIT, LogWriteError
    from suites.recording.collecting import Collecting
    from suites.recording.names import Naming
    from suites.recording.supervised import Supervised

    naming = _naming(config, Naming)
    if collect:
        config.pluginmanager.register(Collecting(Path(collect), naming), "harness-collecting")
    if job:
        try:
            supervised = Supervised(Path(job), naming)
        except LogWriteError as error:  # a full disk: no fault of the tests, and the supervisor must know
            pytest.exit(str(error), returncode=CANNOT_LOG_EXIT)
        config.pluginmanager.register(supervised, "harness-supervised")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell an xdist worker the folder as an absolute path."""
    option = node.config.getoption("--harness-log")
    if option:
        node.workerinput[_WORKER_KEY] = str(node.config.invocation_params.dir / option)


def _naming(config: pytest.Config, kind: type) -> Any:
    suite, device = config.getoption("--harness-suite"), config.getoption("--harness-device")
    try:
        return kind(suite, device, grouped=getattr(config.option, "dist", "") == "loadgroup")
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
