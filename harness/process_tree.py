"""All the processes a worker has: itself and whatever it started, whoever their parent is by now.

A worker leads a session. A child leaves it only on purpose (``setsid``), so the session is found in
full even where a process in between has died and left its children to ``init``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_PASSES = 200
_PASS_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Usage:
    """What a session holds.

    Attributes:
        memory: bytes, memory that several of its processes share counted once where the kernel tells.
        processes: how many there are.
    """

    memory: int
    processes: int


def members(leader: int) -> list[int]:
    """Process ids of the session that ``leader`` leads, without those that are dead and not yet reaped."""
    return [pid for pid in psutil.pids() if _session(pid) == leader and not _is_zombie(pid)]


def usage(leader: int) -> Usage:
    """Memory and number of processes of the session."""
    pids = members(leader)
    return Usage(sum(_memory(pid) for pid in pids), len(pids))


def kill(leader: int) -> None:
    """Kill the session; returns when none of it is left.

    All are stopped before any is killed, so that one that forks without end cannot outrun the killing.
    """
    for _ in range(_PASSES):
        pids = members(leader)
        if not pids:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        time.sleep(_PASS_SECONDS)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return -1


def _is_zombie(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def _memory(pid: int) -> int:
    """Proportional set size on Linux: pages shared with the fork server are no one worker's."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass  # another system, or the process is gone
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
