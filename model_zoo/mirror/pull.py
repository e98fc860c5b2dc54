"""A file on its way from the upstream, read by any number of clients while it is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

_PIECE = 2**18
_PATIENCE = 120.0  # Seconds without a byte from the upstream, its retries included.


class Pull:
    """One download and its readers.

    A reader gets the last byte only when the whole file's hash is right, so no client can take a wrong
    file for a whole one: its answer is cut short.

    Attributes:
        path: where the file will be, whole.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._size = size
        self._changed = threading.Condition()
        self._part: Path | None = None
        self._have = 0
        self._restarts = 0
        self._done = False
        self._error: Exception | None = None

    @property
    def failed(self) -> bool:
        """Whether it came to nothing."""
        return self._error is not None

    def wrote(self, part: Path, have: int) -> None:
        """Take note that ``have`` bytes stand in ``part``; fewer than before means a new beginning."""
        with self._changed:
            self._restarts += have < self._have
            self._part, self._have = part, have
            self._changed.notify_all()

    def finish(self, error: Exception | None) -> None:
        """Take note of the end."""
        with self._changed:
            self._done, self._error = error is None, error
            self._changed.notify_all()

    def begin(self) -> None:
        """Wait for the first byte, so that a failure can still be answered with an error.

        Raises:
            OSError: there is none.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._done or self.failed or self._have > 0, _PATIENCE)
            self._require(self._done or self._have > 0)

    def wait(self, timeout: float = _PATIENCE) -> None:
        """Wait for the end.

        Raises:
            OSError: it failed, or there was no end in time.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._done or self.failed, timeout)
            self._require(self._done)

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes from ``start`` up to ``end`` as they come.

        Raises:
            OSError: the download failed, began anew with other bytes, or stopped.
        """
        restarts = self._restarts
        while start < end:
            path, until = self._ready(start, restarts)
            try:
                with path.open("rb") as file:
                    file.seek(start)
                    piece = file.read(min(until, end, start + _PIECE) - start)
            except FileNotFoundError:
                self.wait()  # It just got its own name.
                continue
            if not piece:
                raise OSError(f"{self.path.name} got shorter while it was read")
            start += len(piece)
            yield piece

    def _ready(self, start: int, restarts: int) -> tuple[Path, int]:
        """A file to read from and how far, once there is more than ``start``."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._done or self.failed or self._restarts != restarts or self._shown > start,
                _PATIENCE,
            )
            self._require(self._restarts == restarts)  # What was sent before a new beginning may be wrong.
            if self._done:
                return self.path, self._size
            self._require(self._shown > start)
            assert self._part is not None
            return self._part, self._shown

    @property
    def _shown(self) -> int:
        return min(self._have, self._size - 1)

    def _require(self, fine: bool) -> None:
        if self.failed or not fine:
            raise OSError(f"{self.path.name} does not come from the upstream") from self._error
