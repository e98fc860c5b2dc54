"""Brings one file over HTTP: exactly the bytes that were announced, or nothing.

The Hub's client resumes inside one call only, leaves parts behind that nothing counts, writes whatever a
server sends, and hashes none of it (measured with 2.4.0). Here a part is kept under a name that the next
process finds, is locked while somebody writes to it, never grows beyond the announced size, and becomes
the file only when its hash is the announced one. Connections, redirects, proxies and errors are the
client's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from model_zoo.backoff import BROKEN, with_backoff
from model_zoo.digests import Digest, expected_hash, matches

PART_SUFFIX = ".incomplete"
TIMEOUT = 20.0  # Seconds to connect, and between two pieces of a body.
_CHUNK = 2**20


class CorruptError(OSError):
    """A server sends other bytes than it announced."""


class ShortError(OSError):
    """A server ended a body before its announced size."""


def download(
    url: str,
    target: Path,
    expected: Digest,
    *,
    headers: Mapping[str, str] | None = None,
    attempts: int = 5,
    sleep: Callable[[float], None] = time.sleep,
    progress: Callable[[Path, int], None] | None = None,
    timeout: float | None = None,
    longest: float = 60.0,
) -> None:
    """Download a file, going on where an earlier attempt or process stopped.

    Args:
        target: where it is put, whole; its folder is made. A file that is there and right is kept.
        expected: what the server announced.
        headers: of the request, e.g. the authorization.
        attempts: how often in all.
        longest: seconds that one answer may ask to be waited for.
        progress: told the file that is written to, and the bytes that stand in it, after each piece.

    Raises:
        CorruptError: the bytes have another hash, or are more than announced; nothing is kept.
        OSError, or an error of the client's HTTP library: what the last attempt came to.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked_part(target) as part:
        if matches(target, expected):
            part.unlink(missing_ok=True)
            return
        with_backoff(
            lambda: _attempt(url, part, expected, dict(headers or {}), progress, timeout or TIMEOUT),
            attempts=attempts,
            sleep=sleep,
            longest=longest,
            also=(*BROKEN, ShortError, CorruptError),
        )
        part.replace(target)


@contextlib.contextmanager
def _locked_part(target: Path) -> Iterator[Path]:
    """The file that becomes the target, locked against other processes; they wait, then find the target."""
    part = target.with_name(target.name + PART_SUFFIX)
    while True:
        with part.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_still(file, part):
                continue  # Whoever held it finished, and took the name away.
            try:
                yield part
            finally:
                with contextlib.suppress(FileNotFoundError):
                    if part.stat().st_size == 0:
                        part.unlink()
            return


def is_being_written(part: Path) -> bool:
    """Whether some process writes to a part now; one that ended, however it ended, does not."""
    with part.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _is_still(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _attempt(
    url: str,
    part: Path,
    expected: Digest,
    headers: dict[str, str],
    progress: Callable[[Path, int], None] | None,
    timeout: float,
) -> None:
    from huggingface_hub.utils import get_session, hf_raise_for_status

    running, wanted = expected_hash(expected)
    with part.open("r+b") as file:
        have = _take_in(file, running, expected.size)
        if have == expected.size > 0 and running.hexdigest() == wanted:
            return
        if have == expected.size:
            running, have = _from_the_start(file, expected)
        if have:
            headers["Range"] = f"bytes={have}-"
        headers["Accept-Encoding"] = "identity"
        with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
            if response.status_code >= 400:
                response.read()
                if response.status_code == 416:
                    file.truncate(0)
                    raise ShortError(f"{url} cannot be resumed at byte {have}")
                hf_raise_for_status(response)
            if have and response.status_code != 206:
                running, have = _from_the_start(file, expected)
            for piece in response.iter_raw():
                have += len(piece)
                if have > expected.size:
                    file.truncate(0)
                    raise CorruptError(f"{url} is longer than the {expected.size:,} bytes announced")
                file.write(piece)
                running.update(piece)
                if progress is not None:
                    file.flush()
                    progress(part, have)
        if have < expected.size:
            raise ShortError(f"{url} ended after {have:,} of {expected.size:,} bytes")
        if running.hexdigest() != wanted:
            file.truncate(0)
            raise CorruptError(f"{url} is not the file that was announced: its hash is another")


def _take_in(file: IO[bytes], running: Any, size: int) -> int:
    """Hash what an earlier attempt left; more than the whole is thrown away."""
    if os.fstat(file.fileno()).st_size > size:
        file.truncate(0)
    have = 0
    while piece := file.read(_CHUNK):
        running.update(piece)
        have += len(piece)
    return have


def _from_the_start(file: IO[bytes], expected: Digest) -> tuple[Any, int]:
    file.seek(0)
    file.truncate(0)
    return expected_hash(expected)[0], 0
