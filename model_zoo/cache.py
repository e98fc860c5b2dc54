"""The folder that downloads are kept in: which snapshots are whole, which are in use, and what may go.

Blobs and snapshots lie as ``HF_HUB_CACHE`` has them, so that the Hub's own client reads them. Beside them,
in ``.fetched/<org>--<name>/<commit>.*``, stands what that layout cannot say::

    .json      what a whole snapshot holds: size and hash of each file, and its time when it was hashed
    .lease     locked (shared) by every process that uses or downloads the snapshot; its time is the last use
    .reserved  bytes that a running download will need

A lock ends with its process, however that ends, so nothing has to be cleaned up after a kill.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from model_zoo.digests import Digest, matches
from model_zoo.download import PART_SUFFIX, is_being_written

RECORDS = ".fetched"
_STALE_SECONDS = 3600.0
"""Age at which a part that the Hub's client left, which locks nothing, is nobody's any more."""

_held: dict[Path, IO[bytes]] = {}
_held_lock = threading.Lock()


class NoRoomError(OSError):
    """The budget, or the disk, is too small beside what is in use."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One snapshot.

    Attributes:
        used: when it was last used, seconds since the epoch.
        size: bytes of its files; two snapshots that share a blob both count it.
    """

    repo_id: str
    commit: str
    used: float
    size: int


class ModelCache:
    """A cache folder; processes of one machine share it.

    Args:
        root: made when something is written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def repository(self, repo_id: str) -> Path:
        """The folder of a repository."""
        return self.root / f"models--{repo_id.replace('/', '--')}"

    def snapshot(self, repo_id: str, commit: str) -> Path:
        """The folder of a snapshot, whole or not."""
        return self.repository(repo_id) / "snapshots" / commit

    def blob(self, repo_id: str, digest: Digest) -> Path:
        """Where a content is, or will be."""
        return self.repository(repo_id) / "blobs" / digest.etag

    def complete(self, repo_id: str, commit: str) -> Path | None:
        """The folder of a snapshot all of whose files are there with their size and hash.

        A file that has not been touched since it was hashed is not hashed again.
        """
        record = self._record(repo_id, commit, ".json")
        try:
            manifest = json.loads(record.read_text())
        except (OSError, ValueError):
            return None
        folder = self.snapshot(repo_id, commit)
        if not isinstance(manifest, dict) or not manifest:
            return None
        changed = False
        for name, known in manifest.items():
            if not isinstance(known, dict):
                return None  # of an earlier version
            state = _is_whole(folder / name, known)
            if state is None:
                return None
            changed |= state
        if changed:
            _write(record, _manifest(folder, {name: _digest_of(known) for name, known in manifest.items()}))
        return folder

    def settle(self, repo_id: str, commit: str, files: Mapping[str, Digest]) -> Path:
        """Link a snapshot's files to their blobs, which were hashed, and record that it is whole."""
        folder = self.snapshot(repo_id, commit)
        for name, digest in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            target = os.path.relpath(self.blob(repo_id, digest), path.parent)
            if path.is_symlink() or path.exists():
                path.unlink()
            path.symlink_to(target)
        _write(self._record(repo_id, commit, ".json"), _manifest(folder, files))
        self._record(repo_id, commit, ".reserved").unlink(missing_ok=True)
        return folder

    def hold(self, repo_id: str, commit: str, *, touch: bool = True) -> None:
        """Keep a snapshot from being evicted until this process ends or lets go.

        Args:
            touch: whether that is a use of it.
        """
        path = self._record(repo_id, commit, ".lease")
        with _held_lock:
            if path in _held:
                if touch:
                    os.utime(path)
                return
            new = not path.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                file = path.open("ab")
                fcntl.flock(file, fcntl.LOCK_SH)  # Waits for an eviction under way.
                if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    break
                file.close()
            if touch or new:
                os.utime(path, None if touch else (0, 0))
            _held[path] = file

    def let_go(self, repo_id: str, commit: str) -> None:
        """End what :meth:`hold` began."""
        with _held_lock:
            file = _held.pop(self._record(repo_id, commit, ".lease"), None)
        if file is not None:
            file.close()

    def touch(self, repo_id: str, commit: str) -> None:
        """Count this moment as a use."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._record(repo_id, commit, ".lease"))

    def last_use(self, repo_id: str, commit: str) -> float:
        """When some process last began to use a snapshot, 0.0 if none did."""
        try:
            return self._record(repo_id, commit, ".lease").stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def entries(self) -> list[Entry]:
        """Every snapshot, whole or on its way, least recently used first."""
        found = []
        for lease in (self.root / RECORDS).glob("*/*.lease"):
            repo_id, commit = lease.parent.name.replace("--", "/"), lease.stem
            with contextlib.suppress(FileNotFoundError):
                used = lease.stat().st_mtime
                found.append(Entry(repo_id, commit, used, self._size(repo_id, commit)))
        return sorted(found, key=lambda entry: entry.used)

    def reserve(
        self,
        repo_id: str,
        commit: str,
        size: int,
        budget: int = 0,
        *,
        patience: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make room for a snapshot that this process holds, evicting what was not used for longest.

        Args:
            size: bytes that it will take.
            budget: most bytes of the whole cache; 0 for as many as the disk has.
            patience: seconds to wait for others to let go.

        Raises:
            NoRoomError: there is no room beside what is in use.
        """
        waited = 0.0
        while not self._reserve(repo_id, commit, size, budget):
            if waited >= patience:
                limit = f"the cache may take {budget:,}" if budget else "the disk is full"
                raise NoRoomError(
                    f"{size:,} bytes are needed, {limit}, and the other snapshots are all in use"
                )
            sleep(1.0)
            waited += 1.0

    def _reserve(self, repo_id: str, commit: str, size: int, budget: int) -> bool:
        with self._alone():
            if not self._make_room(repo_id, commit, size, budget):
                return False
            _write(self._record(repo_id, commit, ".reserved"), size)
            return True

    def _make_room(self, repo_id: str, commit: str, size: int, budget: int) -> bool:
        others = [entry for entry in self.entries() if (entry.repo_id, entry.commit) != (repo_id, commit)]
        used = sum(entry.size for entry in others)

        def fits() -> bool:
            return (not budget or used + size <= budget) and size <= shutil.disk_usage(self.root).free

        for entry in others:
            if fits():
                return True
            if self._evict(entry):
                used -= entry.size
        return fits()

    def _evict(self, entry: Entry) -> bool:
        """Delete a snapshot that nobody holds, with the blobs that no other snapshot of it uses."""
        lease = self._record(entry.repo_id, entry.commit, ".lease")
        with contextlib.suppress(FileNotFoundError), lease.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self._record(entry.repo_id, entry.commit, ".json").unlink(missing_ok=True)
            shutil.rmtree(self.snapshot(entry.repo_id, entry.commit), ignore_errors=True)
            self._drop_blobs(entry.repo_id, entry.commit)
            self._record(entry.repo_id, entry.commit, ".reserved").unlink(missing_ok=True)
            lease.unlink(missing_ok=True)
        return True

    def _drop_blobs(self, repo_id: str, gone: str) -> None:
        """Delete blobs that no snapshot and no running download of a repository has, but for one commit's."""
        folder = self.repository(repo_id)
        under_way = (path.stem for path in self._record(repo_id, "", "").parent.glob("*.reserved"))
        if any(self.is_held(repo_id, commit) for commit in under_way if commit != gone):
            return  # A download of another revision may be about to link them.
        linked = {path.resolve() for path in (folder / "snapshots").rglob("*") if path.is_symlink()}
        for blob in (folder / "blobs").glob("*"):
            if blob.resolve() not in linked and not (
                blob.name.endswith(PART_SUFFIX) and is_being_written(blob)
            ):
                blob.unlink(missing_ok=True)
        if not linked:
            shutil.rmtree(folder, ignore_errors=True)

    def is_held(self, repo_id: str, commit: str) -> bool:
        """Whether some process uses or downloads a snapshot."""
        with contextlib.suppress(FileNotFoundError):
            return is_being_written(self._record(repo_id, commit, ".lease"))
        return False

    def _size(self, repo_id: str, commit: str) -> int:
        try:
            manifest = json.loads(self._record(repo_id, commit, ".json").read_text())
            return sum(int(known["size"]) for known in manifest.values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        with contextlib.suppress(OSError, ValueError):
            return int(self._record(repo_id, commit, ".reserved").read_text())
        return 0

    def _record(self, repo_id: str, commit: str, suffix: str) -> Path:
        return self.root / RECORDS / repo_id.replace("/", "--") / f"{commit}{suffix}"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time decides what fits."""
        (self.root / RECORDS).mkdir(parents=True, exist_ok=True)
        with (self.root / RECORDS / "lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def sweep_incomplete(cache_dir: Path | str, *, older_than: float = _STALE_SECONDS) -> int:
    """Delete what killed downloads left behind, beside any that run.

    Args:
        older_than: seconds since the last write; younger files may belong to a download of the Hub's client,
            which locks nothing, or be resumed by ours.

    Returns:
        bytes freed.
    """
    freed = 0
    for path in Path(cache_dir).glob(f"models--*/blobs/*{PART_SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # Another sweep, or its download, was faster.
            stat = path.stat()
            if time.time() - stat.st_mtime >= older_than and not is_being_written(path):
                path.unlink()
                freed += stat.st_size
    return freed


def _is_whole(path: Path, known: Mapping[str, Any]) -> bool | None:
    """Whether a file had to be hashed anew to be found whole; None if it is not whole."""
    try:
        stat = path.stat()
    except OSError:
        return None
    if stat.st_size != known.get("size"):
        return None
    if stat.st_mtime_ns == known.get("time"):
        return False
    return True if matches(path, _digest_of(known)) else None


def _digest_of(known: Mapping[str, Any]) -> Digest:
    return Digest(int(known["size"]), str(known.get("blob_id", "")), str(known.get("sha256", "")))


def _manifest(folder: Path, files: Mapping[str, Digest]) -> dict[str, Any]:
    return {
        name: {
            "size": digest.size,
            "blob_id": digest.blob_id,
            "sha256": digest.sha256,
            "time": (folder / name).stat().st_mtime_ns,
        }
        for name, digest in sorted(files.items())
    }


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)
