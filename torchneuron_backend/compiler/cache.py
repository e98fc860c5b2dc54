"""A folder of build results that outlives the process and is shared by all processes of a user.

An entry is one file named after its key: a digest, then the content. Files appear by renaming, so a reader
sees all of an entry or none; one whose digest does not fit is removed and built again. When the folder grows
beyond its bound, what was not used for longest goes first. Nothing here ever fails a build: a folder that
cannot be read or written is as good as none.

Compiled programs are machine code: like every compiler cache, the folder must belong to those who may run
code as this user. It is made readable by its owner alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import platform
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

log = logging.getLogger(__name__)

FOLDER_VARIABLE = "TORCHNEURON_CACHE_DIR"
SIZE_VARIABLE = "TORCHNEURON_CACHE_SIZE"
SWITCH_VARIABLE = "TORCHNEURON_CACHE"

_DEFAULT_BYTES = 1 << 30
_DIGEST_BYTES = hashlib.sha256().digest_size
_UNFINISHED = ".unfinished"
# A writer that has not renamed its file after this long is dead.
_UNFINISHED_S = 3600.0
_PACKAGES = ("jaxlib", "torch", "torch-mlir", "torchneuron-harness")


@dataclass(frozen=True)
class Cache:
    """Entries in ``folder``, together at most ``limit_bytes``."""

    folder: Path
    limit_bytes: int = _DEFAULT_BYTES

    def get(self, key: str) -> bytes | None:
        """The content of ``key``, which counts as just used; None if there is none or it is damaged."""
        path = self._path(key)
        try:
            data = path.read_bytes()
            if hashlib.sha256(data[_DIGEST_BYTES:]).digest() != data[:_DIGEST_BYTES]:
                log.warning("a damaged entry of the compiler cache is built again: %s", path)
                path.unlink(missing_ok=True)
                return None
            with contextlib.suppress(OSError):
                os.utime(path)
        except OSError:
            return None
        return data[_DIGEST_BYTES:]

    def put(self, key: str, content: bytes) -> None:
        """Store ``content`` and drop what is too much; content that is larger than the bound is not kept."""
        if len(content) + _DIGEST_BYTES > self.limit_bytes:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, unfinished = tempfile.mkstemp(suffix=_UNFINISHED, dir=path.parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(hashlib.sha256(content).digest() + content)
                os.replace(unfinished, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished)
                raise
            self._shrink()
        except OSError as error:
            log.warning("the compiler cache in %s cannot be written: %s", self.folder, error)

    def remove(self, key: str) -> None:
        """Forget ``key``."""
        with contextlib.suppress(OSError):
            self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def _shrink(self) -> None:
        entries = []
        for path in self.folder.glob("??/*"):
            # Another process may take it away at any time.
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                if path.suffix != _UNFINISHED:
                    entries.append((status.st_mtime_ns, status.st_size, path))
                elif time.time() - status.st_mtime > _UNFINISHED_S:
                    path.unlink(missing_ok=True)
        excess = sum(size for _, size, _ in entries) - self.limit_bytes
        for _, size, path in sorted(entries):
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= size


def open_cache() -> Cache | None:
    """The cache the environment asks for: TORCHNEURON_CACHE_DIR (default: in the user's cache folder),
    TORCHNEURON_CACHE_SIZE in bytes (default 1 GiB); None with TORCHNEURON_CACHE=0. Raises ValueError for a
    size that is no number.
    """
    if os.environ.get(SWITCH_VARIABLE, "1").lower() in ("0", "false", "no", "off"):
        return None
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        base = os.environ.get("XDG_CACHE_HOME")
        try:
            folder = str((Path(base) if base else Path.home() / ".cache") / "torchneuron")
        except RuntimeError:  # no home
            return None
    size = os.environ.get(SIZE_VARIABLE) or str(_DEFAULT_BYTES)
    if not size.isdecimal():
        raise ValueError(f"{SIZE_VARIABLE} must be a number of bytes, not {size!r}")
    return Cache(Path(folder), int(size))


def key_of(*parts: str) -> str:
    """The key of what is built from ``parts`` with the software installed on this kind of machine."""
    digest = hashlib.sha256()
    for part in (*parts, *_environment()):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@functools.cache
def _environment() -> tuple[str, ...]:
    return (
        *(f"{name} {_version(name)}" for name in _PACKAGES),
        _own_code(),
        platform.machine(),
        _cpu_features(),
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _own_code() -> str:
    """A digest of this package: what it builds changes with it, also between versions."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _cpu_features() -> str:
    """Machine code is made for these and no others."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
