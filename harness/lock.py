"""One supervisor a run: a lock that the kernel lets go of when its holder ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from harness.errors import UsageError

LOCK_FILE = ".supervisor.lock"


@contextlib.contextmanager
def sole_supervisor(folder: Path) -> Iterator[None]:
    """Hold a run's lock while the context lasts.

    Raises:
        UsageError: another process supervises this run.
    """
    with (folder / LOCK_FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise UsageError(
                f"run {folder.name} is being supervised by process {holder}; wait for it or stop it first"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
