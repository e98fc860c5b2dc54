"""What runs on a node of a Ray cluster: a batch in a fresh process, watched and limited where it is."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import fsspec
import psutil
import ray

from harness import __version__, devices, processes, pytest_sessions
from harness.devices.base import Description
from harness.engine import BatchEnd
from harness.errors import UsageError
from harness.job import Job
from harness.limits import Limits
from harness.local import LocalBatch
from harness.pytest_sessions import Session
from harness.segments import Outbox, put
from harness.standing import REFUSED_DIR
from results.plan import OUTPUT_DIR, Case
from results.vocabulary import CaseKind

_LOOK_SECONDS = 0.2
SHIP_SECONDS = 1.0
"""How often a node leaves what its batch logged; so much of a log is lost with a node."""

LEFT_DIRS = (OUTPUT_DIR, REFUSED_DIR)
"""Folders of a run of which a node leaves its part below a batch's segments."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A batch for a node.

    Attributes:
        limits: a memory limit of 0 becomes a batch's share of the node's memory.
        url: where segments of its log go.
        shared: whether the node has the store's folder, so that caches in it are used.
        resource: what the batch was given one of.
        visible: environment variable that says which one, or ``""``.
        version: the supervisor's version of the harness.
    """

    job: Job
    limits: Limits
    url: str
    shared: bool
    resource: str
    visible: str
    version: str = __version__


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What a node says of a batch that came to its end.

    Attributes:
        segments: how many it left; only then is its log whole.
        left: the other files that it left there, each a folder of ``LEFT_DIRS`` and a name.
    """

    end: BatchEnd
    segments: int
    left: tuple[tuple[str, str], ...]
    node: str


def run_batch(work: Work) -> Returned:
    """Run a batch in a fresh process of this node; a cancelled task ends it.

    Raises:
        UsageError: this node has another version of the harness, or not the tests.
        InfrastructureError: segments cannot be written.
    """
    node = ray.util.get_node_ip_address()
    if work.version != __version__:
        raise UsageError(f"node {node} has harness {__version__}, the supervisor {work.version}")
    if work.job.cases[0].kind is CaseKind.PYTEST:
        _require_folder(Path(work.job.cases[0].spec["root"]))
    files, root = fsspec.url_to_fs(work.url)
    with tempfile.TemporaryDirectory(prefix="harness-") as scratch:
        job = settled(work, Path(scratch))
        outbox = Outbox(files, root, job.log)
        batch = LocalBatch(job, node_limits(work.limits, work.resource))
        try:
            _follow(batch, outbox)
        finally:
            batch.stop()
            outbox.finish()
        assert batch.end is not None
        left = _leave(job.folder, files, root)
        return Returned(end=batch.end, segments=outbox.count, left=left, node=node)


def leave(url: str, name: str, data: bytes) -> None:
    """Leave a file below a URL, as batches do with their logs.

    Raises:
        UsageError: it cannot be written from this node.
    """
    try:
        files, root = fsspec.url_to_fs(url)
        put(files, f"{root}/{name}", data)
    except Exception as error:  # each storage raises errors of its own
        node = ray.util.get_node_ip_address()
        raise UsageError(f"event logs cannot go to {url}: node {node} cannot write there: {error}") from error


def collect(paths: Sequence[str], session: Session) -> list[Case]:
    """The cases that pytest collects on this node; see :func:`harness.pytest_sessions.collect`.

    Raises:
        HarnessError: as there; also where this node has no such folder.
    """
    _require_folder(session.root)
    return pytest_sessions.collect(paths, session)


def _require_folder(root: Path) -> None:
    if not root.is_dir():
        raise UsageError(
            f"node {ray.util.get_node_ip_address()} has no folder {root}: "
            "pytest_root has to lie at the same path on every node"
        )


def describe(device: str) -> Description:
    """Describe a device as this node has it.

    Raises:
        HarnessError: the child that looked at it died.
    """
    return processes.call(devices.describe, device)


def settled(work: Work, scratch: Path) -> Job:
    """The job with the folders and the device it has on this node."""
    job = work.job
    chosen = os.environ.get(work.visible) if work.visible else None
    environment = {**job.environment, **({work.visible: chosen} if chosen is not None else {})}
    job = dataclasses.replace(job, folder=scratch, environment=environment)
    if work.shared:
        return job
    cache = Path(tempfile.gettempdir()) / f"torchneuron-harness-{os.getuid()}"
    models = dataclasses.replace(job.models, cache=cache / "hub" / job.models.cache.name)
    return dataclasses.replace(job, compiler_cache=cache / "compiler", models=models)


def node_limits(limits: Limits, resource: str) -> Limits:
    """The limits of a batch; where none is set, its memory is its share of 90 % of this node's."""
    if limits.memory:
        return limits
    own = ray.get_runtime_context().get_node_id()
    slots = next((node["Resources"].get(resource, 1) for node in ray.nodes() if node["NodeID"] == own), 1)
    share = int(psutil.virtual_memory().total * 0.9 / max(slots, 1))
    return dataclasses.replace(limits, memory=share)


def _follow(batch: LocalBatch, outbox: Outbox) -> None:
    shipped = time.monotonic()
    while batch.end is None:
        wait([batch.process.sentinel], timeout=_LOOK_SECONDS)
        batch.look()
        if time.monotonic() - shipped >= SHIP_SECONDS:
            outbox.ship(batch.taken)  # what was not checked yet may be refused
            shipped = time.monotonic()


def _leave(folder: Path, files: Any, root: str) -> tuple[tuple[str, str], ...]:
    """Copy what else there is of a batch beside its segments; without it the results are whole too."""
    left = []
    for path in sorted(path for name in LEFT_DIRS for path in (folder / name).glob("*")):
        try:
            put(files, f"{root}/{path.parent.name}/{path.name}", path.read_bytes())
        except Exception:  # noqa: BLE001 - each storage raises errors of its own
            continue
        left.append((path.parent.name, path.name))
    return tuple(left)
