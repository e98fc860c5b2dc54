"""Two processes that check a claim about distributed training together.

``python -m suites.claims.ranks NAME DEVICE BACKEND RANK FILE`` is one of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from suites.claims import checks, child, rank_work
from suites.claims.claim import Subject
from suites.device import Tolerance
from suites.lifeline import die_with_parent

WORLD = 2


def check(subject: Subject, name: str, backend: str, seconds: float = child.SECONDS) -> None:
    """Let two processes, each with a device of its own, do a piece of :mod:`suites.claims.rank_work`.

    Raises:
        RefutedError: there is no such backend, a process says so, died, or took too long.
        NotApplicableError: there are fewer than two devices.
    """
    checks.require(
        dist.is_backend_available(backend),
        f"torch.distributed has no backend {backend!r} for {subject.name}",
    )
    if subject.name != "cpu" and torch.accelerator.device_count() < WORLD:
        raise checks.NotApplicableError(f"it needs {WORLD} devices, and there is one")
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        command = [sys.executable, "-m", "suites.claims.ranks", name, subject.name, backend]
        processes = [_start([*command, str(rank), store]) for rank in range(WORLD)]
        try:
            outputs = _outputs(processes, time.monotonic() + seconds, seconds)
        finally:
            _end(processes)
    for output in outputs:
        child.raise_answer(output)


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )


def _outputs(processes: Sequence[subprocess.Popen[str]], until: float, seconds: float) -> list[str]:
    outputs = []
    for rank, process in enumerate(processes):
        try:
            output, _ = process.communicate(timeout=max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise checks.RefutedError(f"process {rank} did not end within {seconds:.0f} s") from error
        outputs.append(output)
    for rank, process in enumerate(processes):
        checks.require(process.returncode == 0, f"process {rank} ended with {process.returncode}")
    return outputs


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def main(arguments: Sequence[str]) -> int:
    """Be one of the processes, and print the answer."""
    die_with_parent()
    name, device, backend, rank, store = arguments
    error: Exception | None = None
    try:
        if device != "cpu":
            torch.accelerator.set_device_index(int(rank))
        torch.set_num_threads(1)
        dist.init_process_group(backend, init_method=f"file://{store}", rank=int(rank), world_size=WORLD)
        rank_work.WORK[name](Subject(device, lambda _: Tolerance(1e-4, 1e-5)))
        dist.barrier()
        dist.destroy_process_group()
    except Exception as raised:  # noqa: BLE001 - told to the process that asked
        error = raised
    print(child.answer_of(error), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
