"""What a worker prints: a bounded head and tail as text, the rest compressed beside it."""

from __future__ import annotations

import contextlib
import gzip
import os
import threading
import time
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 64 * 1024
REST_BYTES = 32 * 1024 * 1024
"""Most that the compressed file may take; what comes after it is counted and dropped."""

_CHUNK = 64 * 1024
_LAST_WORDS = 4000
_JOIN_SECONDS = 5.0


class Output:
    """Reads a pipe in a thread of its own until its other end is closed.

    Args:
        reader: the pipe's reading end; it is closed here.
        path: the text file; ``NAME.rest.gz`` beside it takes what fits neither head nor tail. A disk
            that is full loses output and nothing else.

    Attributes:
        inode: of the pipe.
        last_heard: when something was printed last, by the monotonic clock.
    """

    def __init__(self, reader: Connection, path: Path) -> None:
        self._reader = reader
        self.inode = os.fstat(reader.fileno()).st_ino
        self._path = path
        self._lock = threading.Lock()
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._between = self._dropped = 0
        self._rest: gzip.GzipFile | None = None
        self._closed = False
        self.last_heard = time.monotonic()
        self._thread = threading.Thread(target=self._read, name=f"output of {path.stem}", daemon=True)
        self._thread.start()

    def last_words(self) -> str:
        """The last lines, control characters removed."""
        with self._lock:
            data = (bytes(self._head) + b"".join(self._tail))[-_LAST_WORDS:]
        return printable(data.decode("utf-8", "replace")).strip()

    def close(self) -> None:
        """Wait for the end of the pipe and write the text file; call it once no writer is left.

        What a writer prints that is there all the same is read, so that it need not wait, and dropped.
        """
        self._thread.join(_JOIN_SECONDS)
        with self._lock, contextlib.suppress(OSError):
            if self._closed:
                return
            self._closed = True
            if self._rest is not None:
                self._rest.close()
            if not self._head:
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(bytes(self._head) + self._note() + b"".join(self._tail))

    def _note(self) -> bytes:
        if not self._between:
            return b""
        dropped = f", of which the last {self._dropped} were dropped" if self._dropped else ""
        return f"\n[... {self._between} bytes in {self._rest_path.name}{dropped} ...]\n".encode()

    @property
    def _rest_path(self) -> Path:
        return self._path.with_name(f"{self._path.stem}.rest.gz")

    def _read(self) -> None:
        with self._reader:
            while True:
                try:
                    data = os.read(self._reader.fileno(), _CHUNK)
                except OSError:
                    return
                if not data:
                    return
                self.last_heard = time.monotonic()
                with self._lock:
                    if not self._closed:
                        self._take(data)

    def _take(self, data: bytes) -> None:
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= TAIL_BYTES:
            oldest = self._tail.popleft()
            self._tail_size -= len(oldest)
            self._between += len(oldest)
            self._keep(oldest)

    def _keep(self, data: bytes) -> None:
        try:
            if self._rest is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._rest = gzip.GzipFile(self._rest_path, "wb", compresslevel=1)
            if self._dropped or self._rest_path.stat().st_size > REST_BYTES:
                self._dropped += len(data)
            else:
                self._rest.write(data)
        except OSError:
            self._dropped += len(data)


def printable(text: str) -> str:
    """The text without control characters, which could move a terminal's cursor or colour a page."""
    return "".join(c for c in text if c in "\n\t" or (c >= " " and c != "\x7f"))
