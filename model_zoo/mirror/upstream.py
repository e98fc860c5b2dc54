"""Pull-through: what a mirror lacks is fetched from another Hub once, kept by commit, and served after.

Everything is kept below ``<root>/.upstream/<org>--<name>/``::

    commits/<sha>.json   the Hub's own description of that commit, with sizes and hashes of all its files
    refs.json            names of revisions → the commit they last stood for
    blobs/<hash>         contents, named by what the Hub says they hash to, and only if they do
    grants.json          SHA-256 of each token that the Hub let read, for gated and private models

A file name of a repository never becomes a name on this disk.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from model_zoo.backoff import BROKEN, is_broken_off, status_of, with_backoff
from model_zoo.digests import Digest
from model_zoo.download import PART_SUFFIX, TIMEOUT, download, is_being_written
from model_zoo.mirror.pull import Pull
from model_zoo.mirror.repository import Metadata, Repository
from model_zoo.safety import RefusedError, check_names

KEPT = ".upstream"
FRESH_SECONDS = 60.0
"""How long a name such as ``main`` stands for a commit before the upstream is asked again."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
_SHA = re.compile(r"[0-9a-f]{40}")
_HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_STALE_PART_SECONDS = 24 * 3600.0


class UpstreamError(Exception):
    """An answer of the upstream that is no success: HTTP status, the Hub's code ("" for none), a sentence.

    Attributes:
        down: the upstream could not be reached or failed, so what is kept may be served in its place.
    """

    def __init__(self, status: int, code: str, message: str, *, down: bool = False) -> None:
        super().__init__(message)
        self.status, self.code, self.down = status, code, down


@dataclass(frozen=True)
class PulledRepository(Repository):
    """A repository of the upstream at one commit; its files may not be here yet."""

    upstream: Upstream | None = None

    def content(self, name: str, token: str | None = None) -> Path | Pull:
        """Where the bytes are, or whence they come."""
        assert self.upstream is not None
        return self.upstream.content(self, name, token)

    def may_read(self, token: str | None) -> bool:
        """Whether the upstream lets the bearer of a token read; what it granted once is remembered."""
        assert self.upstream is not None
        if not (self.metadata.gated or self.metadata.private):
            return True
        return self.upstream.grants(self, token)

    def may_see(self, token: str | None) -> bool:
        """A private model is seen by those who may read it; if that cannot be asked now, by nobody new."""
        try:
            return not self.metadata.private or self.may_read(token)
        except UpstreamError:
            return False


class Upstream:
    """Another Hub, and what was kept of it; safe to share by threads.

    Args:
        root: the mirror's directory.
        url: of the Hub, or of another mirror.
        attempts: how often a failing upstream is asked.
        sleep: waits between attempts.
        fresh: see :data:`FRESH_SECONDS`.
    """

    def __init__(
        self,
        root: Path,
        url: str,
        *,
        attempts: int = 4,
        sleep: Callable[[float], None] = time.sleep,
        fresh: float = FRESH_SECONDS,
    ) -> None:
        self.url = url.rstrip("/")
        self._kept = root / KEPT
        self._attempts, self._sleep, self._fresh = attempts, sleep, fresh
        self._lock = threading.Lock()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._asked: dict[tuple[str, str, str], float] = {}
        self._pulls: dict[Path, Pull] = {}
        self._sweep()

    def repository(self, repo_id: str, revision: str, token: str | None) -> PulledRepository | None:
        """The repository at a revision, from what is kept where that is certain or all there is.

        Returns:
            None if the id is none that a Hub can have.

        Raises:
            UpstreamError: the upstream has no such thing, or is needed and does not answer.
        """
        if not _is_id(repo_id):
            return None
        with self._lock:
            lock = self._locks[f"{repo_id}@{revision}"]
        with lock:
            commit = revision if _SHA.fullmatch(revision) else self._fresh_commit(repo_id, revision, token)
            known = self._read(repo_id, commit, revision) if commit else None
            if known is not None:
                return known
            try:
                document = self._describe(repo_id, revision, token)
            except UpstreamError as error:
                last = self._read(repo_id, self._refs(repo_id).get(revision, ""), revision)
                if error.down and last is not None:
                    return last
                raise
            return self._keep(repo_id, revision, document, token)

    def content(self, repo: Repository, name: str, token: str | None) -> Path | Pull:
        """The file's path if it is here, else what brings it: one download, however many ask for it."""
        expected = repo.files[name]
        path = self._folder(repo.id) / "blobs" / expected.etag
        with self._lock:
            pull = self._pulls.get(path)
            if pull is not None and not pull.failed:
                return pull
            if path.is_file():  # It got its name when its hash was right.
                return path
            pull = self._pulls[path] = Pull(path, expected.size)
        threading.Thread(
            target=self._bring, args=(pull, repo, name, token), name=f"pull-{expected.etag[:8]}", daemon=True
        ).start()
        return pull

    def grants(self, repo: Repository, token: str | None) -> bool:
        """Whether the upstream lets this token read a repository's files."""
        if token is None or not repo.files:
            return False
        mark = hashlib.sha256(token.encode()).hexdigest()
        file = self._folder(repo.id) / "grants.json"
        granted: list[str] = _read_json(file) or []
        if mark in granted:
            return True
        name = min(repo.files, key=lambda name: repo.files[name].size)
        try:
            self._request("HEAD", self._address(repo, name), token)
        except UpstreamError as error:
            if error.down:
                raise
            return False
        with self._lock:
            _write_json(file, sorted({*(_read_json(file) or []), mark}))
        return True

    def listing(self, path: str, token: str | None) -> tuple[list[Any], str]:
        """A page of the upstream's listing and the address of the next one, ``""`` for none.

        Raises:
            UpstreamError: it does not answer, or refuses.
        """
        response = self._request("GET", self.url + path, token)
        return response.json(), response.links.get("next", {}).get("url", "")

    def kept(self) -> list[Repository]:
        """What could be served without the upstream: each model at the commit its ``main`` last was."""
        found = []
        for folder in sorted(self._kept.glob("*/refs.json")):
            repo_id = folder.parent.name.replace("--", "/")
            known = self._read(repo_id, (_read_json(folder) or {}).get("main", ""), "main")
            if known is not None:
                found.append(known)
        return list(found)

    def _folder(self, repo_id: str) -> Path:
        return self._kept / repo_id.replace("/", "--")

    def _refs(self, repo_id: str) -> dict[str, str]:
        return _read_json(self._folder(repo_id) / "refs.json") or {}

    def _fresh_commit(self, repo_id: str, revision: str, token: str | None) -> str:
        """The commit of a name that was looked up with this token a moment ago."""
        asked = self._asked.get((repo_id, revision, token or ""), -self._fresh)
        return self._refs(repo_id).get(revision, "") if time.monotonic() - asked < self._fresh else ""

    def _read(self, repo_id: str, commit: str, revision: str) -> PulledRepository | None:
        document = _read_json(self._folder(repo_id) / "commits" / f"{commit}.json") if commit else None
        return self._repository(document, revision) if document else None

    def _describe(self, repo_id: str, revision: str, token: str | None) -> dict[str, Any]:
        address = f"{self.url}/api/models/{repo_id}/revision/{quote(revision, safe='')}?blobs=true"
        document = self._request("GET", address, token).json()
        if not isinstance(document, dict) or not _SHA.fullmatch(str(document.get("sha", ""))):
            raise UpstreamError(502, "", f"The upstream describes {repo_id} without its commit.")
        return document

    def _keep(
        self, repo_id: str, revision: str, document: dict[str, Any], token: str | None
    ) -> PulledRepository:
        repository = self._repository(document, revision)
        folder = self._folder(repo_id)
        _write_json(folder / "commits" / f"{repository.sha}.json", document)
        with self._lock:
            _write_json(folder / "refs.json", {**self._refs(repo_id), revision: repository.sha})
            self._asked[repo_id, revision, token or ""] = time.monotonic()
        if token and repository.metadata.private:
            self.grants(repository, token)
        return repository

    def _repository(self, document: dict[str, Any], revision: str) -> PulledRepository:
        repo_id = str(document.get("id", ""))
        if not _is_id(repo_id):
            raise UpstreamError(502, "", f"The upstream describes a model named {repo_id[:100]!r}.")
        try:
            files = {entry["rfilename"]: _digest(entry) for entry in document.get("siblings") or []}
            check_names(files)
            metadata = Metadata(
                pipeline_tag=document.get("pipeline_tag"),
                library_name=document.get("library_name"),
                downloads=int(document.get("downloads") or 0),
                likes=int(document.get("likes") or 0),
                tags=tuple(document.get("tags") or ()),
                gated=document.get("gated") or False,
                private=bool(document.get("private")),
                created_at=document.get("createdAt"),
                last_modified=document.get("lastModified"),
            )
        except RefusedError as error:
            raise UpstreamError(502, "", str(error)) from error
        except (KeyError, TypeError, ValueError) as error:
            raise UpstreamError(502, "", f"The upstream's description of {repo_id} lacks {error}.") from error
        return PulledRepository(
            id=repo_id,
            folder=self._folder(repo_id),
            metadata=metadata,
            files=dict(sorted(files.items())),
            sha=document["sha"],
            config=document.get("config") or {},
            parameters=(document.get("safetensors") or {}).get("parameters") or {},
            names=frozenset({revision}),
            upstream=self,
        )

    def _address(self, repo: Repository, name: str) -> str:
        return f"{self.url}/{repo.id}/resolve/{repo.sha}/{quote(name)}"

    def _bring(self, pull: Pull, repo: Repository, name: str, token: str | None) -> None:
        try:
            download(
                self._address(repo, name),
                pull.path,
                repo.files[name],
                headers=_authorization(token),
                attempts=self._attempts,
                sleep=self._sleep,
                progress=pull.wrote,
            )
            pull.finish(None)
        except Exception as error:  # noqa: BLE001 - whoever waits for the bytes has to be told
            pull.finish(error)
        finally:
            with self._lock:
                self._pulls.pop(pull.path, None)

    def _request(self, method: str, url: str, token: str | None) -> Any:
        from huggingface_hub.utils import get_session, hf_raise_for_status

        def ask() -> Any:
            response = get_session().request(
                method, url, headers=_authorization(token), timeout=TIMEOUT, follow_redirects=method == "GET"
            )
            if response.status_code >= 400:
                hf_raise_for_status(response)
            return response

        try:
            return with_backoff(ask, attempts=self._attempts, sleep=self._sleep, also=BROKEN, longest=30.0)
        except Exception as error:
            raise _as_upstream_error(error, self.url) from error

    def _sweep(self) -> None:
        """Delete parts that nobody writes to and nobody came back for."""
        for part in self._kept.glob(f"*/blobs/*{PART_SUFFIX}"):
            if time.time() - part.stat().st_mtime > _STALE_PART_SECONDS and not is_being_written(part):
                part.unlink(missing_ok=True)


def _is_id(repo_id: str) -> bool:
    return _ID.fullmatch(repo_id) is not None and "--" not in repo_id and ".." not in repo_id


def _as_upstream_error(error: Exception, url: str) -> UpstreamError:
    status, headers = status_of(error)
    if not status:
        broken = is_broken_off(error)
        what = "cannot be reached" if broken else f"cannot be asked: {error}"
        return UpstreamError(502, "", f"The upstream {url} {what}.", down=broken)
    message = headers.get("X-Error-Message") or f"The upstream answered with HTTP {status}."
    return UpstreamError(
        status, headers.get("X-Error-Code", ""), message, down=status == 429 or status >= 500
    )


def _authorization(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _digest(entry: Mapping[str, Any]) -> Digest:
    lfs = entry.get("lfs") or {}
    found = Digest(
        int(entry["size"]), entry["blobId"], lfs.get("sha256", ""), int(lfs.get("pointerSize") or 0)
    )
    if not _HEX.fullmatch(found.etag) or not _HEX.fullmatch(found.blob_id):
        raise ValueError("a hash")
    return found


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{threading.get_ident()}.tmp")
    temporary.write_text(json.dumps(value), encoding="utf-8")
    temporary.replace(path)
