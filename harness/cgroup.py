"""Memory limits that the kernel keeps: control groups, version 2, where this process may make them.

A group can be given controllers only while no process is in it, so the supervisor moves itself into a
group of its own below the one it was started in, and each worker into another beside it
(https://docs.kernel.org/admin-guide/cgroup-v2.html, "No Internal Process Constraint"). It needs a group
that was delegated to it, as by ``systemd-run --user --scope -p Delegate=yes``; elsewhere it has none.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
_SUPERVISOR = "harness-supervisor"


class WorkerGroup:
    """The group of one worker and everything it starts.

    Args:
        folder: of the group, made here.
        limit: bytes of memory it may hold.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        folder.mkdir()
        try:
            (folder / "memory.max").write_text(str(limit))
            with contextlib.suppress(OSError):  # there only where swap is accounted for
                (folder / "memory.swap.max").write_text("0")
            # What goes over the limit dies as a whole: half a worker has no result.
            (folder / "memory.oom.group").write_text("1")
        except OSError:
            self.close()
            raise

    def take(self, pid: int) -> None:
        """Move a process into the group; what it starts from now on is in it too."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    @property
    def peak(self) -> int:
        """Most bytes it has held; 0 on kernels before 5.19, which do not say."""
        with contextlib.suppress(OSError, ValueError):
            return int((self._folder / "memory.peak").read_text())
        return 0

    def oom_killed(self) -> bool:
        """Whether the kernel killed one of its processes because the limit was reached."""
        with contextlib.suppress(OSError):
            for line in (self._folder / "memory.events").read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count) > 0
        return False

    def close(self) -> None:
        """Kill what is left in it and remove it."""
        with contextlib.suppress(OSError):  # kernels before 5.14 lack it; the session was killed already
            (self._folder / "cgroup.kill").write_text("1")
        with contextlib.suppress(OSError):
            self._folder.rmdir()


class Groups:
    """Makes the groups of workers."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def worker(self, name: str, limit: int) -> WorkerGroup | None:
        """A group for a worker, ``None`` if the kernel refuses it."""
        try:
            return WorkerGroup(self._base / f"harness-{os.getpid()}-{name}", limit)
        except OSError:
            return None


def groups(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> Groups | None:
    """Prepare this process's own group for workers; ``None`` where that cannot be had."""
    try:
        own = _own_group(mount, membership)
        if own is None or "memory" not in (own / "cgroup.controllers").read_text().split():
            return None
        if "memory" not in (own / "cgroup.subtree_control").read_text().split():
            _move_aside(own)
            (own / "cgroup.subtree_control").write_text("+memory")
        return Groups(own)
    except OSError:
        return None


def _own_group(mount: Path, membership: Path) -> Path | None:
    """The folder of the group this process is in, of the version 2 hierarchy."""
    for line in membership.read_text().splitlines():
        number, _, path = line.split(":", 2)
        if number == "0":
            own = mount / path.lstrip("/")
            return own.parent if own.name == _SUPERVISOR else own
    return None


def _move_aside(own: Path) -> None:
    leaf = own / _SUPERVISOR
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))
