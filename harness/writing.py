"""Writing what a command found to a file: whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import InfrastructureError, UsageError


def check_place(path: Path | None, option: str) -> None:
    """Refuse a place that cannot be written, before work is spent.

    Raises:
        UsageError: it is a folder, or lies in none that is there and can be written.
    """
    if path is None:
        return
    if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
        raise UsageError(f"{option} {path}: not a file in a folder that is there and can be written")


def write_whole(path: Path, text: str) -> None:
    """Write a text file in UTF-8; a reader sees the old one or the new one.

    Raises:
        InfrastructureError: the disk is full, or the place cannot be written.
    """
    beside = path.with_name(f".{path.name}.tmp")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InfrastructureError(f"{path} could not be written: {error.strerror}") from error
