"""All the processes a worker has: itself and whatever it started, whoever their parent is by now.

A worker leads a session. A child leaves it only on purpose (``setsid``), so the session is found in
full even where a process in between has died and left its children to ``init``. One that left on
purpose is found by what it prints to, as long as that is the worker's own pipe (where ``/proc`` tells).
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


def members(leader: int, pipe: int = 0) -> list[int]:
    """Process ids of the session that ``leader`` leads, without those that are dead and not yet reaped.

    Args:
        leader: a process id.
        pipe: inode of a pipe; a process whose standard output or error it is belongs to them too.
    """
    return [pid for pid in psutil.pids() if _belongs(pid, leader, pipe) and is_alive(pid)]


def usage(leader: int, pipe: int = 0) -> Usage:
    """Memory and number of processes of the members."""
    pids = members(leader, pipe)
    return Usage(sum(_memory(pid) for pid in pids), len(pids))


def kill(leader: int, pipe: int = 0) -> None:
    """Kill the members; returns when none is left.

    All are stopped before any is killed, so that one that forks without end cannot outrun the killing.
    """
    for _ in range(_PASSES):
        pids = members(leader, pipe)
        if not pids:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        time.sleep(_PASS_SECONDS)


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and not only what is left of one that nobody has waited for."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _belongs(pid: int, leader: int, pipe: int) -> bool:
    if _session(pid) == leader:
        return True
    return bool(pipe) and pid != os.getpid() and any(_is_pipe(pid, number, pipe) for number in (1, 2))


def _is_pipe(pid: int, descriptor: int, pipe: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}") == f"pipe:[{pipe}]"
    except OSError:
        return False


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return -1


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
