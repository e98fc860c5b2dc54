"""Runs with quick workers: a process of the fork server without torch costs some 30 ms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import local, processes
from tests.faults.runs import SmallRun

MakeRun = Callable[..., SmallRun]


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeRun:
    """Makes a small run in a store of its own."""
    monkeypatch.setattr(processes, "PRELOADED", ())
    monkeypatch.setattr(local, "run_job", local.run_job)  # restored afterwards

    def make(*names: str, **fields: object) -> SmallRun:
        return SmallRun(tmp_path / "store", *names, **fields)

    return make
