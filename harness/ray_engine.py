"""The engine of a Ray cluster: a task for each batch, which asks for one of the device's resource.

The supervisor learns of a batch from its segments alone and is the only one to write its log in the
run's folder. What a lost node had not left by then never happened: a case of which anything is known
runs again in a new attempt, any other in the one it had; what turns up later is never read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fsspec
import ray

from harness.engine import Batch, BatchEnd
from harness.errors import HarnessError, UsageError
from harness.job import Job
from harness.limits import Limits
from harness.ray_cluster import Cluster
from harness.ray_node import LEFT_DIRS, Returned, Work, run_batch
from harness.segments import Inbox
from harness.standing import Standing, keep_refused
from results.events import EventLog, EventLogError, LogWriteError, Record
from results.vocabulary import Fate

SEGMENTS_DIR = "segments"
"""Folder of a run that takes segments when no other place for them is named."""

_POLL_SECONDS = 1.0
_POLL_SHARE = 4
_ARRIVAL_SECONDS = 30.0
_STOP_SECONDS = 5.0
_GET_SECONDS = 30.0
_SAID = 1000


class RayEngine:
    """Runs batches as tasks of a Ray cluster.

    Args:
        limits: of a batch; a memory limit of 0 is its share of its node.
        most: most batches at a time; 0 is as many as the cluster has room for.
        url: where nodes leave event logs, for fsspec; ``""`` is the run's folder, which they share then.
        task: what runs on the node.

    Raises:
        UsageError: nothing that is installed can write to the URL.
    """

    def __init__(
        self,
        cluster: Cluster,
        limits: Limits,
        *,
        most: int = 0,
        url: str = "",
        task: Callable[[Work], Returned] = run_batch,
    ) -> None:
        self._cluster = cluster
        self._limits = limits
        self._most = most
        self._url = url.rstrip("/")
        self._task = ray.remote(max_retries=0, **cluster.resource.options)(task)
        self._segments: Path | None = None
        self._running = 0
        if self._url:
            file_system(self._url)

    @property
    def slots(self) -> int:
        """What the cluster has room for now, and no more than asked."""
        total = self._cluster.total
        return min(total, self._most) if self._most else total

    def start(self, job: Job) -> Batch:
        """Queue a task; Ray starts it when one of the resource is free."""
        # A run that goes on gives no name twice, but a node that was taken for lost may still write.
        name = f"{job.worker}-{uuid.uuid4().hex[:8]}"
        if not self._url:
            self._segments = job.folder / SEGMENTS_DIR
        base = f"{self._url}/{job.folder.name}" if self._url else f"{self._segments}"
        work = Work(
            job=job,
            limits=self._limits,
            url=f"{base}/{name}",
            shared=not self._url,
            resource=self._cluster.resource.name,
            visible=self._cluster.resource.visible,
        )
        self._running += 1
        return RayBatch(job, self._task.options(name=job.worker).remote(work), work.url, self)

    def wait(self, batches: Sequence[Batch], seconds: float) -> None:
        """Return when a task has ended, or after ``seconds``."""
        tasks = [batch.task for batch in batches if isinstance(batch, RayBatch) and not batch.returned]
        if tasks:
            ray.wait(tasks, num_returns=1, timeout=seconds, fetch_local=False)
        else:
            time.sleep(seconds)

    def close(self) -> None:
        """Tidy the run's folder; the cluster is the caller's."""
        if self._segments is not None:
            with contextlib.suppress(OSError):  # a lost node may have left something, or be at it
                self._segments.rmdir()

    def pace(self, took: float) -> float:
        """Seconds until a batch is asked for again, so that many batches share the supervisor's time."""
        return max(_POLL_SECONDS, _POLL_SHARE * took * self._running)

    def over(self) -> None:
        """Count a batch that ended."""
        self._running -= 1


class RayBatch:
    """A batch that runs as a task."""

    def __init__(self, job: Job, task: Any, url: str, engine: RayEngine) -> None:
        self.job = job
        self.task = task
        self.end: BatchEnd | None = None
        self._engine = engine
        self._url = url
        self._files, self._root = file_system(url)
        self._inbox = Inbox(self._files, self._root)
        self._log: EventLog | None = None
        self._standing = Standing(job)
        self._answer: Returned | None = None
        self._returned_at: float | None = None
        self._next_poll = 0.0

    @property
    def pid(self) -> int:
        """Processes of other machines have no number here."""
        return 0

    @property
    def now(self) -> str:
        """The case and stage it is in, as far as is known."""
        entered = self._standing.entered
        return f"{entered.case} {entered.stage}" if entered else ""

    @property
    def returned(self) -> bool:
        """Whether its task has ended; its log may still be on the way."""
        return self._returned_at is not None

    def look(self) -> list[Record]:
        """Take in what has arrived, and the task's end."""
        if self.end is not None:
            return []
        lost: ray.exceptions.RayError | None = None
        try:
            self._ask()
        except ray.exceptions.RayError as error:
            lost = error
        records = self._fetch(now=lost is not None)
        if lost is not None:
            self._lose(said(lost), node_died=isinstance(lost, ray.exceptions.NodeDiedError))
        elif self._standing.refused:  # the node found nothing wrong with it, so its case is not to blame
            if self.returned:
                self._lose(f"its log, as it came from the node, cannot be right: {self._standing.refused}")
        elif self._answer is not None and self._inbox.count >= self._answer.segments:
            self._finish(self._answer)
        elif self._returned_at and time.monotonic() - self._returned_at > _ARRIVAL_SECONDS:
            self._lose(self._why_missing())
        return records

    def stop(self) -> None:
        """End it, charging no case; what the node left until then is kept."""
        if self.end is not None:
            return
        self._cancel()
        with contextlib.suppress(LogWriteError, EventLogError):
            self._fetch(now=True)
        self._close(self._cut_short(Fate.INTERRUPTED))

    def _ask(self) -> None:
        if self._returned_at is None and ray.wait([self.task], timeout=0, fetch_local=False)[0]:
            self._returned_at, self._next_poll = time.monotonic(), 0.0
            self._answer = ray.get(self.task, timeout=_GET_SECONDS)

    def _fetch(self, *, now: bool) -> list[Record]:
        began = time.monotonic()
        if self._standing.refused or (not now and began < self._next_poll):
            return []
        lines = self._inbox.read()
        self._next_poll = time.monotonic() + self._engine.pace(time.monotonic() - began)
        before = self._standing.offset
        records = self._standing.take(lines)
        if records and self._log is None:
            self._log = EventLog(self.job.log)
        for record in records:
            assert self._log is not None
            self._log.take(record)
        if self._standing.refused:
            stands = self.job.log.read_bytes() if self._log else b""
            keep_refused(self.job, stands + lines[self._standing.offset - before :])
        return records

    def _cancel(self) -> None:
        """Let the node end its process; if it does not, end what runs it, and the process with it.

        Ray ends this process if a task is cancelled in the moment in which its result comes
        (https://github.com/ray-project/ray/pull/54785), so only a task that shall not end by itself is.
        """
        with contextlib.suppress(ray.exceptions.RayError):
            if self.returned or ray.wait([self.task], timeout=0, fetch_local=False)[0]:
                return
            ray.cancel(self.task)
            if not ray.wait([self.task], timeout=_STOP_SECONDS, fetch_local=False)[0]:
                ray.cancel(self.task, force=True)

    def _lose(self, why: str, *, node_died: bool = False) -> None:
        end = self._cut_short(Fate.LOST, why)
        # A node that dies says nothing of the device; tasks that always fail do.
        self._close(dataclasses.replace(end, entered_any=end.entered_any or node_died))

    def _why_missing(self) -> str:
        assert self._answer is not None
        why = self._inbox.trouble or "set events_url to a place that it and the supervisor share"
        return (
            f"node {self._answer.node} left {self._answer.segments} pieces of its log at {self._url}, "
            f"of which {self._inbox.count} arrived: {why}"
        )

    def _cut_short(self, fate: Fate, why: str = "") -> BatchEnd:
        standing = self._standing
        return BatchEnd(
            fate=fate,
            case=standing.place.case if standing.place else "",
            stage=standing.place.stage if standing.place else "",
            remaining=standing.left,
            interrupted=standing.under_way,
            entered_any=standing.entered_any,
            output_tail=why,
        )

    def _finish(self, answer: Returned) -> None:
        for folder, name in answer.left:
            target = self.job.folder / folder / name
            if folder not in LEFT_DIRS or target.name != name:
                continue
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self._files.cat_file(f"{self._root}/{folder}/{name}"))
            except Exception:  # noqa: BLE001 - printed text is worth no result
                continue
        self._close(answer.end)

    def _close(self, end: BatchEnd) -> None:
        self.end = end
        self._engine.over()
        self._inbox.remove()
        if self._log is not None:
            self._log.close()


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it.

    Raises:
        UsageError: there is none for it, or what it needs is not installed.
    """
    try:
        files, root = fsspec.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UsageError(f"event logs cannot go to {url}: {error}") from error
    return files, root


def said(error: Exception) -> str:
    """What an exception of Ray says, without the traceback of a task."""
    cause = getattr(error, "cause", None) or error
    text = str(cause).strip() or type(cause).__name__
    named = (
        text
        if isinstance(cause, HarnessError | ray.exceptions.RayError)
        else f"{type(cause).__name__}: {text}"
    )
    return named[:_SAID]
