"""Running the real command line against a mirror of few models, and reading what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from results.events import Entered, Event, WorkerStarted, read_log
from results.layout import run_folders

MODELS = ("mirror/tiny-bert", "mirror/tiny-resnet", "mirror/tiny-t5")
"""What the shared mirror of these tests holds: attention, convolutions, an encoder-decoder."""

FEW_TESTS = "opinfo::op_db::add::*"


class Night:
    """One ``harness nightly`` in a process of its own.

    Args:
        faults: what the simulated device shall do wrong, as ``TORCHNEURON_FAULTS`` takes it.
    """

    def __init__(self, store: Path, hub: str, *arguments: str, faults: str = "") -> None:
        self.store = store
        environment = {**os.environ, "TORCHNEURON_FAULTS": faults}
        environment.pop("HARNESS_STORE", None)
        command = [sys.executable, "-m", "harness.cli", "nightly", "--store", str(store), "--hub", hub]
        self.process = subprocess.Popen(
            [*command, "--quiet", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def wait(self, seconds: float = 240) -> tuple[int, str]:
        """The exit status and everything printed."""
        try:
            output, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        return self.process.returncode, output

    def folder(self) -> Path | None:
        """The run's folder, once there is one."""
        folders = run_folders(self.store)
        return folders[-1] if folders else None

    def events(self) -> Iterator[Event]:
        """Everything logged so far."""
        folder = self.folder()
        for path in sorted((folder / "events").glob("*.jsonl")) if folder else ():
            for record in read_log(path):
                yield record.event

    def until_entered(self, wanted: Callable[[Entered], bool], seconds: float = 120) -> tuple[Entered, int]:
        """Wait until a worker is in a stage; give the event and the worker's process number."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            folder = self.folder()
            for path in sorted((folder / "events").glob("worker-*.jsonl")) if folder else ():
                last = [record.event for record in read_log(path)][-1:]
                if last and isinstance(last[0], Entered) and wanted(last[0]):
                    return last[0], self._pid(path.stem)
            if self.process.poll() is not None:
                raise AssertionError(f"the night ended before that:\n{self.wait()[1]}")
            time.sleep(0.05)
        raise AssertionError(f"no worker entered it within {seconds:.0f} s")

    def _pid(self, worker: str) -> int:
        pids = [e.pid for e in self.events() if isinstance(e, WorkerStarted) and e.worker == worker]
        assert pids, f"{worker} is not announced"
        return pids[0]


def outcomes(store: Path, columns: Sequence[str] = ("case_id", "stage", "outcome")) -> list[tuple[str, ...]]:
    """The latest run's cases with the stage and outcome that decided them."""
    import results

    with results.open(store) as reader:
        return [
            tuple(row[name] for name in columns) for row in reader.rows("v_cases", run=reader.latest_run())
        ]
