"""What the supervisor hands to a worker process. Imports no torch, since the supervisor must not."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from results.plan import EVENTS_DIR, Case


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Where models come from and how they are fed.

    Attributes:
        endpoint: URL of the Hub, or of a mirror of it.
        cache: folder that downloads are kept in.
        max_bytes: largest repository to download; 0 is any.
        max_cache_bytes: most bytes of all downloads kept; 0 is as many as the disk has.
        seed: of weights that a checkpoint lacks, and of inputs.
    """

    endpoint: str
    cache: Path
    max_bytes: int
    seed: int
    max_cache_bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A batch for one worker process.

    Attributes:
        worker: name of the worker, also of its log and its output file.
        folder: the run's folder.
        events: the folder below it that the log goes to.
        compiler_cache: folder that compilers may keep artefacts in, of this and other runs.
        device: torch device type.
        threads: intra-op threads torch may use.
        environment: variables to set in its process: what makes test suites see the device, which of a node's
            devices it may use.
    """

    worker: str
    folder: Path
    compiler_cache: Path
    device: str
    cases: tuple[Case, ...]
    attempt: int
    threads: int
    models: ModelSettings
    events: str = EVENTS_DIR
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def log(self) -> Path:
        """The worker's event log."""
        return self.folder / self.events / f"{self.worker}.jsonl"


def run_job(job: Job, output: Connection) -> None:
    """Run a job in this process, whose output goes to a pipe; the entry point of a worker."""
    os.environ.update(job.environment)  # before anything looks for a device
    from harness.worker import work

    work(job, output)
