"""A child process that is a program of its own, with the face of a multiprocessing process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path


class ChildProcess:
    """A program that leads a session of its own and prints to a pipe.

    Attributes:
        pid: its process id.
        sentinel: what ``multiprocessing.connection.wait`` can wait for, or -1 where there is none.
    """

    def __init__(
        self, command: Sequence[str], output: Connection, environment: Mapping[str, str], folder: Path
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output.fileno(),
            stderr=output.fileno(),
            env={**os.environ, **environment},
            cwd=folder,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.sentinel = os.pidfd_open(self.pid) if sys.platform == "linux" else -1

    @property
    def exitcode(self) -> int | None:
        """``None`` while it runs, negative for a signal."""
        return self._process.poll()

    def kill(self) -> None:
        """Kill the program itself, not what it started."""
        self._process.kill()

    def join(self) -> None:
        """Wait for its end."""
        self._process.wait()

    def close(self) -> None:
        """Let go of the sentinel."""
        if self.sentinel >= 0:
            with contextlib.suppress(OSError):
                os.close(self.sentinel)
            self.sentinel = -1
