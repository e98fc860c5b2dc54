"""Whether the kernel killed something because memory ran out."""

from __future__ import annotations

from pathlib import Path

_VMSTAT = Path("/proc/vmstat")


class OomWatch:
    """Compares the kernel's count of such kills with what it was when the watch began.

    The count is the machine's (``oom_kill`` in ``/proc/vmstat``; Linux 4.13 and later), so it only tells
    whose kill a SIGKILL was that the harness did not send. Elsewhere it knows of none.
    """

    def __init__(self, vmstat: Path = _VMSTAT) -> None:
        self._vmstat = vmstat
        self._before = self._count()

    def killed(self) -> bool:
        """Whether there was one since."""
        return self._count() > self._before

    def _count(self) -> int:
        try:
            lines = self._vmstat.read_text().splitlines()
        except OSError:
            return 0
        counts = (line.split() for line in lines)
        return next((int(words[1]) for words in counts if words and words[0] == "oom_kill"), 0)
