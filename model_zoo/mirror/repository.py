"""Reading a mirror directory: which repositories there are and what the Hub would know of each."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from model_zoo.digests import Digest, commit_hash, digest
from model_zoo.mirror.files import Content
from model_zoo.safety import elements_of, read_header, read_json

METADATA_FILE = ".mirror.json"


class MirrorError(ValueError):
    """A mirror directory that cannot be served; says which file and why."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The contents of ``.mirror.json``; the package's docstring says what each key means."""

    pipeline_tag: str | None = None
    library_name: str | None = None
    downloads: int = 0
    likes: int = 0
    tags: tuple[str, ...] = ()
    gated: str | bool = False
    granted: tuple[str, ...] = ()
    private: bool = False
    moved_to: str = ""
    created_at: str | None = None
    last_modified: str | None = None

    @staticmethod
    def read(path: Path) -> Metadata:
        """Read a metadata file; a missing one gives the defaults, an unknown key is ignored.

        Raises:
            MirrorError: it is not a JSON object.
        """
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            known = {f.name: raw[f.name] for f in fields(Metadata) if f.name in raw}
        except FileNotFoundError:
            return Metadata()
        except (ValueError, TypeError) as error:
            raise MirrorError(f"{path} is not a JSON object: {error}") from error
        for name in ("tags", "granted"):
            known[name] = tuple(known.get(name, ()))
        return Metadata(**known)


@dataclass(frozen=True)
class Repository:
    """One repository at its only commit.

    Attributes:
        files: path inside the repository → its digest, sorted by path.
        config: the parsed ``config.json``, empty if there is none.
        parameters: number of elements by safetensors dtype name, e.g. ``{"F32": 1000}``.
        names: revisions that stand for this commit, beside its hash.
    """

    id: str
    folder: Path
    metadata: Metadata
    files: dict[str, Digest]
    sha: str
    config: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    names: frozenset[str] = frozenset({"main", "refs/heads/main"})

    @property
    def author(self) -> str | None:
        """The organisation, if the id has one."""
        return self.id.split("/")[0] if "/" in self.id else None

    @property
    def library(self) -> str | None:
        """The declared library, or transformers where there is a configuration for it."""
        return self.metadata.library_name or ("transformers" if self.config.get("model_type") else None)

    @property
    def tags(self) -> list[str]:
        """Declared tags and those that the Hub derives from files and configuration."""
        suffixes = {Path(name).suffix for name in self.files}
        derived = [self.library, self.metadata.pipeline_tag, self.config.get("model_type")]
        derived += ["safetensors" if ".safetensors" in suffixes else None]
        derived += ["pytorch" if ".bin" in suffixes else None]
        derived += ["custom_code" if "auto_map" in self.config else None]
        return list(dict.fromkeys([*(tag for tag in derived if tag), *self.metadata.tags]))

    def may_read(self, token: str | None) -> bool:
        """Whether the bearer of this token may read the files."""
        return not (self.metadata.gated or self.metadata.private) or token in self.metadata.granted

    def may_see(self, token: str | None) -> bool:
        """Whether its bearer may know that the repository exists."""
        return not self.metadata.private or token in self.metadata.granted

    def content(self, name: str, token: str | None = None) -> Path | Content:
        """The bytes of one of its files; a token matters where they are still elsewhere."""
        return self.folder / name


class MirrorDirectory:
    """The repositories under a directory, re-read when their files change; safe to share by threads."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not self.root.is_dir():
            raise MirrorError(f"{root} is not a directory")
        self._lock = threading.Lock()
        self._known: dict[str, tuple[tuple[Any, ...], Repository]] = {}
        self._digests: dict[tuple[str, int, int], Digest] = {}

    def ids(self) -> Iterator[str]:
        """Ids of all repositories, sorted within each level."""
        for outer in _subfolders(self.root):
            if _is_repository(outer):
                yield outer.name
                continue
            yield from (f"{outer.name}/{inner.name}" for inner in _subfolders(outer))

    def get(self, repo_id: str) -> Repository | None:
        """The repository of that id, or None; an id can never leave the directory."""
        parts = repo_id.split("/")
        if len(parts) > 2 or any(not part or part.startswith(".") or "\0" in part for part in parts):
            return None
        folder = self.root.joinpath(*parts)
        if not folder.is_dir() or (len(parts) == 1 and not _is_repository(folder)):
            return None
        if len(parts) == 2 and _is_repository(folder.parent):
            return None
        with self._lock:
            return self._read(repo_id, folder)

    def all(self) -> list[Repository]:
        """Every repository that is still under its id, sorted by it."""
        found = [self.get(repo_id) for repo_id in sorted(self.ids())]
        return [repo for repo in found if repo is not None and not repo.metadata.moved_to]

    def _read(self, repo_id: str, folder: Path) -> Repository:
        paths = dict(sorted(_served_files(self.root, folder)))
        stats = {name: path.stat() for name, path in paths.items()}
        metadata_file = folder / METADATA_FILE
        changed = metadata_file.stat().st_mtime_ns if metadata_file.exists() else 0
        signature = (changed, *((name, s.st_size, s.st_mtime_ns) for name, s in stats.items()))
        known = self._known.get(repo_id)
        if known is not None and known[0] == signature:
            return known[1]
        files = {}
        for name, path in paths.items():
            key = (str(path), stats[name].st_size, stats[name].st_mtime_ns)
            if key not in self._digests:
                self._digests[key] = digest(path)
            files[name] = self._digests[key]
        repository = Repository(
            id=repo_id,
            folder=folder,
            metadata=Metadata.read(metadata_file),
            files=files,
            sha=commit_hash(files),
            config=_json_object(folder / "config.json"),
            parameters=_count_parameters(folder, files),
        )
        self._known[repo_id] = (signature, repository)
        return repository


def _subfolders(folder: Path) -> list[Path]:
    inside = (Path(entry.path) for entry in os.scandir(folder) if entry.is_dir())
    return sorted(path for path in inside if not path.name.startswith("."))


def _is_repository(folder: Path) -> bool:
    return (folder / METADATA_FILE).is_file() or (folder / "config.json").is_file()


def _served_files(root: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Regular files, dot names left out; a link is followed only to a place inside the mirror."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(parent, name)
            if name.startswith(".") or not path.is_file() or not path.resolve().is_relative_to(root):
                continue
            yield path.relative_to(folder).as_posix(), path


def _json_object(path: Path) -> dict[str, Any]:
    try:
        value = read_json(path)
    except (OSError, ValueError):
        return {}  # A broken config.json is served as it is; only the derived facts are missing.
    return value if isinstance(value, dict) else {}


def _count_parameters(folder: Path, files: dict[str, Digest]) -> dict[str, int]:
    """Elements by dtype over all safetensors files at the top, read from their headers only."""
    counts: dict[str, int] = {}
    for name in files:
        if not name.endswith(".safetensors") or "/" in name:
            continue
        try:
            with (folder / name).open("rb") as file:
                header = read_header(file, files[name].size, name)
            for tensor, entry in header.items():
                if tensor != "__metadata__":
                    elements = elements_of({tensor: entry})
                    counts[str(entry["dtype"])] = counts.get(str(entry["dtype"]), 0) + elements
        except (OSError, ValueError, KeyError):
            continue  # Whoever loads it will say what is wrong.
    return counts
