"""One supervisor a run: a lock that the kernel lets go of when its holder ends, however it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from harness.errors import UsageError
from results.layout import SUPERVISOR_LOCK
from results.locks import holder, try_lock


@contextlib.contextmanager
def sole_supervisor(folder: Path) -> Iterator[None]:
    """Hold a run's lock while the context lasts.

    Raises:
        UsageError: another process supervises this run.
    """
    with (folder / SUPERVISOR_LOCK).open("a+") as file:
        if not try_lock(file):
            raise UsageError(
                f"run {folder.name} is being supervised by process {holder(file)}; "
                "wait for it or stop it first"
            )
        yield
