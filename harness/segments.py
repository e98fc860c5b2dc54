"""An event log on its way from a node to the supervisor, over any storage that fsspec knows.

Object stores cannot append, so the node leaves numbered segments, each some whole lines of its log.
The first line of a segment says its size: where a write can be seen half done, the reader waits for
the rest. Who waits for number N asks for number N, so nothing is ever listed.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from harness.errors import InfrastructureError
from harness.tail import appended

PATIENCE = 60.0
"""Seconds for which writing may fail before a node gives up."""

_HEAD = re.compile(rb"segment ([0-9]+)\n")


def pack(lines: bytes) -> bytes:
    """A segment that holds some lines."""
    return b"segment %d\n" % len(lines) + lines


def unpack(segment: bytes) -> bytes | None:
    """The lines of a segment, ``None`` if it is not whole yet."""
    head = _HEAD.match(segment)
    if head is None or len(segment) - head.end() != int(head[1]):
        return None
    return segment[head.end() :]


def _name(root: str, number: int) -> str:
    return f"{root}/{number:06}"


def put(files: Any, path: str, data: bytes) -> None:
    """Write a file, and the folders above it where a storage has any.

    An object store that is asked for a folder makes its bucket, even one whose name is mistyped, and needs
    none. So folders are made only where writing fails without, and the topmost, the bucket, never is.

    Raises:
        Exception: whatever the storage raises.
    """
    try:
        files.pipe_file(path, data)
    except FileNotFoundError:
        top = path[: path.find("/", 1)]
        if not files.exists(top):
            raise
        files.makedirs(path.rpartition("/")[0], exist_ok=True)
        files.pipe_file(path, data)


class Outbox:
    """Leaves what is appended to a log as segments below ``root`` of a file system of fsspec.

    Attributes:
        count: segments written so far.
    """

    def __init__(self, files: Any, root: str, log: Path) -> None:
        self.count = 0
        self._files = files
        self._root = root
        self._log = log
        self._offset = 0
        self._pending = b""
        self._failing_since: float | None = None

    def ship(self, end: int | None = None) -> bool:
        """Write what is new, as far as byte ``end``, as one segment; whether nothing is left to write.

        A write that failed may have succeeded unseen, so the same bytes are written again before any new.

        Raises:
            InfrastructureError: writing has failed for ``PATIENCE`` seconds.
        """
        self._pending = self._pending or self._new_lines(end)
        if not self._pending:
            return True
        try:
            put(self._files, _name(self._root, self.count), pack(self._pending))
        except Exception as error:  # noqa: BLE001 - each storage raises errors of its own
            self._bear(error)
            return False
        self.count += 1
        self._pending, self._failing_since = b"", None
        return False

    def finish(self) -> None:
        """Write all that is left.

        Raises:
            InfrastructureError: as for ``ship``.
        """
        while not self.ship():
            if self._failing_since is not None:
                time.sleep(1)

    def _new_lines(self, end: int | None) -> bytes:
        lines = appended(self._log, self._offset, end)
        self._offset += len(lines)
        return lines

    def _bear(self, error: Exception) -> None:
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > PATIENCE:
            raise InfrastructureError(f"event logs could not be written to {self._root}: {error}") from error


class Inbox:
    """Reads the segments below ``root`` in order; asking again, or too early, changes nothing.

    Attributes:
        count: segments read so far.
        trouble: why the last one that was asked for could not be read, ``""`` if it merely is not there.
    """

    def __init__(self, files: Any, root: str) -> None:
        self.count = 0
        self.trouble = ""
        self._files = files
        self._root = root

    def read(self) -> bytes:
        """The lines that have arrived since the last call."""
        arrived = []
        while (lines := self._next()) is not None:
            arrived.append(lines)
            self.count += 1
        return b"".join(arrived)

    def _next(self) -> bytes | None:
        self.trouble = ""
        try:
            return unpack(self._files.cat_file(_name(self._root, self.count)))
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - each storage raises errors of its own
            self.trouble = str(error)
            return None

    def remove(self) -> None:
        """Remove all segments, where that is allowed."""
        try:
            self._files.rm(self._root, recursive=True)
        except Exception as error:  # noqa: BLE001 - they are copies, and merely left behind
            self.trouble = str(error)
