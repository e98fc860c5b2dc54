"""How much memory there is for a run: the machine's, or what a container leaves of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil

from harness.cgroup import MEMBERSHIP, MOUNT


def available_memory(mount: Path = MOUNT, membership: Path = MEMBERSHIP) -> int:
    """Bytes that this process and its children may hold: the least of the machine's and its control groups'.

    Control groups are those of version 2 (``memory.max``,
    https://docs.kernel.org/admin-guide/cgroup-v2.html) and version 1 (``memory.limit_in_bytes``). In a
    container the membership names a path of the host, which is not there: its own limit is that of the root.
    """
    return min((psutil.virtual_memory().total, *_limits(mount, membership)))


def _limits(mount: Path, membership: Path) -> Iterator[int]:
    for folder, file in _groups(mount, membership):
        with contextlib.suppress(OSError, ValueError):  # absent, or "max"
            yield int((folder / file).read_text())


def _groups(mount: Path, membership: Path) -> Iterator[tuple[Path, str]]:
    """Every group that bounds this process, with the file that has its limit."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = membership.read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, file = (mount / "memory", "memory.limit_in_bytes") if controllers else (mount, "memory.max")
        group = Path(path.lstrip("/"))
        for part in (group, *group.parents):
            yield root / part, file
