"""Runs with quick workers: a process of the fork server without torch costs some 30 ms."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import local, processes
from results.layout import database_path
from results.writer import writing
from tests.faults.runs import SmallRun

MakeRun = Callable[..., SmallRun]


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without runs: to make its tables takes longer than most of these runs."""
    store = tmp_path_factory.mktemp("empty")
    with writing(store):
        pass
    return store


@pytest.fixture
def make_run(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> MakeRun:
    """Makes a small run in a store of its own."""
    monkeypatch.setattr(processes, "PRELOADED", ())
    monkeypatch.setattr(local, "run_job", local.run_job)  # restored afterwards
    store = tmp_path / "store"
    store.mkdir()
    shutil.copyfile(database_path(empty_store), database_path(store))

    def make(*names: str, **fields: object) -> SmallRun:
        return SmallRun(store, *names, **fields)

    return make
