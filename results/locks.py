"""Locks that one process holds at a time; the kernel lets go of them when it ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TextIO


def try_lock(file: TextIO) -> bool:
    """Take the lock of an open file (mode ``a+``) and write who has it; False if another process does."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return True


def holder(file: TextIO) -> str:
    """Process number of whoever has the lock, as far as it wrote it down."""
    file.seek(0)
    return file.read().strip() or "unknown"


def is_held(path: Path) -> bool:
    """Whether a process has the lock of a file now; the file need not be there."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
