"""Content hashes the way git and git-lfs make them; the Hub's ETags and blob ids are these."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHUNK = 2**20
LFS_SUFFIXES = frozenset(
    {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".npz", ".tflite"}
)
LFS_BYTES = 10 * 2**20  # The Hub stores any larger file through LFS, whatever its name.


@dataclass(frozen=True, slots=True)
class Digest:
    """The identity of one file.

    Attributes:
        size: bytes.
        blob_id: git object id (sha1, 40 hex) of the file, or of its LFS pointer.
        sha256: 64 hex digits for a file that the Hub would keep in LFS, else ``""``.
        pointer_size: bytes of that pointer, 0 without LFS.
    """

    size: int
    blob_id: str
    sha256: str = ""
    pointer_size: int = 0

    @property
    def etag(self) -> str:
        """What the client names the cached blob by."""
        return self.sha256 or self.blob_id


def is_lfs(name: str, size: int) -> bool:
    """Whether the Hub would keep such a file in LFS."""
    return size >= LFS_BYTES or Path(name).suffix.lower() in LFS_SUFFIXES


def digest(path: Path) -> Digest:
    """Hash one file, in constant memory."""
    size = path.stat().st_size
    if not is_lfs(path.name, size):
        return Digest(size, _git_blob_id(path.read_bytes()))
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()
    return Digest(size, _git_blob_id(pointer), sha256, len(pointer))


def expected_hash(expected: Digest) -> tuple[Any, str]:
    """A hash object to feed a file's bytes to, and the hex digits it must come to."""
    if expected.sha256:
        return hashlib.sha256(), expected.sha256
    return hashlib.sha1(b"blob %d\0" % expected.size, usedforsecurity=False), expected.blob_id


def matches(path: Path, expected: Digest) -> bool:
    """Whether a file is there with this size and hash, in constant memory."""
    running, wanted = expected_hash(expected)
    try:
        if path.stat().st_size != expected.size:
            return False
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                running.update(chunk)
    except FileNotFoundError:
        return False
    return bool(running.hexdigest() == wanted)


def commit_hash(files: dict[str, Digest]) -> str:
    """A 40-hex hash over names and contents, independent of times and of the order of a listing."""
    lines = [f"{files[name].etag} {name}\n" for name in sorted(files)]
    return hashlib.sha1("".join(lines).encode(), usedforsecurity=False).hexdigest()


def _git_blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
