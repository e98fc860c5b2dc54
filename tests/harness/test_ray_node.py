"""What a node makes of a batch before it runs it."""

from __future__ import annotations

import os
import sys
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.job import Job, ModelSettings, run_job
from harness.limits import Limits
from harness.profiles import load_profile
from harness.ray_node import Work, settled

LIMITS: Limits = load_profile("default").limits


def work_in(store: Path, *, shared: bool) -> Work:
    models = ModelSettings(endpoint="", cache=store / "cache" / "hub" / "embedded", max_bytes=0, seed=0)
    job = Job(
        worker="w", folder=store / "run", compiler_cache=store / "cache" / "compiler", device="neuron",
        cases=(), attempt=1, threads=1, models=models,
    )  # fmt: skip
    return Work(
        job=job, limits=LIMITS, url="", shared=shared, resource="neuron_cores",
        visible="NEURON_RT_VISIBLE_CORES",
    )  # fmt: skip


def test_the_log_is_written_on_the_node_and_shared_caches_are_used(tmp_path: Path) -> None:
    work = work_in(tmp_path / "store", shared=True)
    job = settled(work, tmp_path / "scratch")
    assert job.log.is_relative_to(tmp_path / "scratch")
    assert (job.compiler_cache, job.models) == (work.job.compiler_cache, work.job.models)


def test_a_node_that_shares_nothing_has_caches_of_its_own(tmp_path: Path) -> None:
    job = settled(work_in(tmp_path / "store", shared=False), tmp_path / "scratch")
    for folder in (job.compiler_cache, job.models.cache, job.log):
        assert not folder.is_relative_to(tmp_path / "store")


def test_a_batch_sees_the_device_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "3")
    job = settled(work_in(tmp_path, shared=True), tmp_path)
    assert job.environment == {"NEURON_RT_VISIBLE_CORES": "3"}
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0")  # as in a fork server of an earlier batch
    seen: list[str] = []
    worker = SimpleNamespace(work=lambda *_: seen.append(os.environ["NEURON_RT_VISIBLE_CORES"]))
    monkeypatch.setitem(sys.modules, "harness.worker", worker)
    run_job(job, Pipe()[0])
    assert seen == ["3"]
