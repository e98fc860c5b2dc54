"""Event logs as files: plain while they are written, compressed by ``harness db compact`` afterwards.

A log keeps its name, ``events/worker-0.jsonl``, in both forms; compressed it has ``.gz`` behind it. Where
both are there, the compressing was cut short and the plain one counts. Whatever reads logs does it by this.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

SUFFIX = ".jsonl"
PACKED = ".gz"
PART = ".part"
"""Ends the name of a file that is not whole yet."""

_BLOCK = 1 << 20
_LEVEL = 6
_LAST_BYTES = 64 * 1024


class EventLogError(ValueError):
    """A log that cannot be read as one; says the file, the line and what is wrong."""


def last_lines(path: Path) -> list[bytes]:
    """Whole lines from the end of a log, which has ``path`` for its plain form; the first may be cut.

    Raises:
        EventLogError: its compressed form is damaged.
        FileNotFoundError: there is no such log.
    """
    with open_log(find_log(path) or path) as log:
        if path.exists():  # what is compressed can only be read from its beginning
            log.seek(max(log.seek(0, os.SEEK_END) - _LAST_BYTES, 0))
        end = b""
        while block := log.read(_BLOCK):
            end = (end + block)[-_LAST_BYTES:]
    return end.split(b"\n")[:-1]


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """What a log holds, whatever its form.

    Attributes:
        bytes: of it, uncompressed.
        whole: bytes up to the end of its last whole line; what comes after it, a death cut short.
        sha256: of the bytes that were asked for.
    """

    bytes: int
    whole: int
    sha256: str


def log_files(events: Path) -> dict[str, Path]:
    """The logs below a folder by name, sorted, each with the file that holds it."""
    found = {path.relative_to(events).as_posix().removesuffix(PACKED): path for path in _packed(events)}
    found |= {path.relative_to(events).as_posix(): path for path in events.rglob(f"*{SUFFIX}")}
    return dict(sorted(found.items()))


def find_log(path: Path) -> Path | None:
    """The file that holds a log, which has ``path`` for its plain form; ``None`` if there is none."""
    return next((form for form in (path, _packed_form(path)) if form.exists()), None)


@contextlib.contextmanager
def open_log(path: Path) -> Iterator[BinaryIO]:
    """Open the file of a log for reading, in either form.

    Raises:
        EventLogError: while it is read, if its compressed form is damaged.
        FileNotFoundError: there is no such file.
    """
    if path.suffix != PACKED:
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path, "rb") as packed:
            yield cast(BinaryIO, packed)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise EventLogError(f"{path} is damaged: {error}; put it back from a copy") from error


def content(path: Path, upto: int | None = None) -> Content:
    """Read a log to its end and say what it holds.

    Args:
        upto: how many bytes to hash; ``None`` is all.

    Raises:
        EventLogError: its compressed form is damaged.
    """
    digest, size, whole = hashlib.sha256(), 0, 0
    with open_log(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block if upto is None else block[: max(upto - size, 0)])
            if (last := block.rfind(b"\n")) >= 0:
                whole = size + last + 1
            size += len(block)
    return Content(size, whole, digest.hexdigest())


def pack(path: Path) -> Path:
    """Compress a log that nothing is added to; give the file that holds it now.

    The compressed file is read back and compared before the plain one goes.

    Raises:
        OSError: it could not be written; the plain one is as it was.
        EventLogError: what was written cannot be read back as it was; likewise.
    """
    target, part = _packed_form(path), path.with_name(path.name + PART + PACKED)
    try:
        with path.open("rb") as plain, gzip.open(part, "wb", compresslevel=_LEVEL) as packed:
            shutil.copyfileobj(plain, packed, _BLOCK)
        sync(part)
        if content(part) != content(path):
            raise EventLogError(f"{target} could not be written as it should be; check the disk")
        part.replace(target)
        sync(target.parent)
    finally:
        part.unlink(missing_ok=True)
    path.unlink()
    return target


def unpack(path: Path) -> None:
    """Bring a log back to its plain form, which is ``path``, so that it can be added to.

    Raises:
        EventLogError: it is damaged.
    """
    packed = _packed_form(path)
    if path.exists() or not packed.exists():
        return
    part = path.with_name(path.name + PART)
    with open_log(packed) as source, part.open("wb") as target:
        shutil.copyfileobj(source, target, _BLOCK)
    sync(part)
    part.replace(path)
    sync(path.parent)
    packed.unlink()


def left_over(events: Path) -> list[Path]:
    """Files that a compression which was cut short left, sorted."""
    both = [path for path in _packed(events) if path.with_suffix("").exists()]
    return sorted([*both, *events.rglob(f"*{SUFFIX}{PART}"), *events.rglob(f"*{SUFFIX}{PART}{PACKED}")])


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, reach the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _packed(events: Path) -> list[Path]:
    return list(events.rglob(f"*{SUFFIX}{PACKED}"))


def _packed_form(path: Path) -> Path:
    return path.with_name(path.name + PACKED)
