"""Brings one repository into a cache: whole, or not with a named reason.

A pinned revision that was fetched before costs no request. A folder is returned only when every
file of it is there with the size the Hub states: the Hub's client returns a partial cache as a
success (measured with 2.4.0: a gated repository of which one file had been cached).
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import re
import shutil
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from model_zoo.backoff import causes, status_of, with_backoff

MANIFESTS = ".fetched"  # Inside the cache: what a complete snapshot holds, one file a revision.
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}


class FetchReason(StrEnum):
    """Why a repository could not be fetched."""

    NOT_FOUND = "not_found"
    GATED = "gated"
    REVISION_NOT_FOUND = "revision_not_found"
    UNAUTHORIZED = "unauthorized"
    DISABLED = "disabled"
    NO_WEIGHTS = "no_weights"
    TOO_LARGE = "too_large"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    OFFLINE = "offline"
    INCOMPLETE = "incomplete"
    DISK = "disk"
    UNEXPECTED = "unexpected"


class FetchError(RuntimeError):
    """A repository that could not be fetched; ``reason`` says which kind of failure it is."""

    def __init__(self, reason: FetchReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def fetch(
    repo_id: str,
    revision: str,
    cache_dir: Path | str,
    endpoint: str | None = None,
    *,
    token: str | bool | None = None,
    max_bytes: int | None = None,
    attempts: int = 5,
) -> Path:
    """Fetch configuration and weights of a repository and return their folder.

    JSON files and safetensors weights are fetched; pickled weights only where there are no others.

    Args:
        revision: a 40-hex commit hash, or a name that is looked up first.
        cache_dir: in the layout of ``HF_HUB_CACHE``; nothing is written elsewhere.
        endpoint: of the Hub or a mirror; the default is ``HF_ENDPOINT`` as it was at import.
        token: as ``huggingface_hub`` takes it; None uses the saved one.
        max_bytes: largest sum of file sizes to fetch.
        attempts: how often a failing server is asked to look a name up; the client itself repeats
            the other calls five times.

    Raises:
        FetchError: with the reason.
    """
    cache = Path(cache_dir)
    if _COMMIT.fullmatch(revision):
        known = _complete(cache, repo_id, revision)
        if known is not None:
            return known
    try:
        return _download(repo_id, revision, cache, endpoint, token, max_bytes, attempts)
    except FetchError:
        raise
    except Exception as error:
        reason, sentence = _explain(error, repo_id, revision)
        raise FetchError(reason, sentence) from error


def wanted_files(sizes: Mapping[str, int]) -> list[str]:
    """Which files of a repository to fetch: all JSON, and weights of one format.

    Weights at the top are preferred to those in folders (exports, other precisions), and the
    library's own names (``model*.safetensors``) to other files at the top (consolidated copies).
    """
    json_files = [name for name in sizes if name.endswith(".json")]
    for suffix, stem in ((".safetensors", "model"), (".bin", "pytorch_model")):
        found = [name for name in sizes if name.endswith(suffix)]
        top = [name for name in found if "/" not in name]
        weights = [name for name in top if name.startswith(stem)] or top or found
        if suffix == ".bin":
            weights = [name for name in weights if Path(name).name.startswith(stem)]
        if weights:
            return sorted(json_files + weights)
    return []


def sweep_incomplete(cache_dir: Path | str, *, older_than: float = 3600.0) -> int:
    """Delete what killed downloads left behind; the Hub's client neither resumes nor counts it.

    Args:
        older_than: seconds since the last write; younger files may belong to a running download.

    Returns:
        bytes freed.
    """
    freed = 0
    for path in Path(cache_dir).glob("models--*/blobs/*.incomplete"):
        with contextlib.suppress(FileNotFoundError):  # Another sweep, or its download, was faster.
            stat = path.stat()
            if time.time() - stat.st_mtime >= older_than:
                path.unlink()
                freed += stat.st_size
    return freed


def _download(
    repo_id: str,
    revision: str,
    cache: Path,
    endpoint: str | None,
    token: str | bool | None,
    max_bytes: int | None,
    attempts: int,
) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils import tqdm

    class _NoBar(tqdm):
        """No progress bar: workers fetch in parallel and their output is kept in logs."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})

    api = HfApi(endpoint=endpoint, token=token)
    commit = revision
    if not _COMMIT.fullmatch(revision):
        info = with_backoff(lambda: api.model_info(repo_id, revision=revision), attempts=attempts)
        commit = str(info.sha)
        known = _complete(cache, repo_id, commit)
        if known is not None:
            return known
    # The client repeats this call, and each file's, by itself; a second layer would wait for minutes.
    tree = api.list_repo_tree(repo_id, revision=commit, recursive=True)
    sizes = {entry.path: entry.size for entry in tree if isinstance(entry, RepoFile)}
    files = wanted_files(sizes)
    if not files:
        raise FetchError(
            FetchReason.NO_WEIGHTS, f"{repo_id} holds no weights in safetensors or PyTorch's own format."
        )
    manifest = {name: sizes[name] for name in files}
    _check_space(repo_id, sum(manifest.values()), cache, max_bytes)
    snapshot_download(
        repo_id,
        revision=commit,
        cache_dir=cache,
        endpoint=endpoint,
        token=token,
        tqdm_class=_NoBar,
        allow_patterns=[glob.escape(name) for name in files],
    )
    folder = _snapshot_folder(cache, repo_id, commit)
    lacking = _lacking(folder, manifest)
    if lacking:
        raise FetchError(
            FetchReason.INCOMPLETE,
            f"{repo_id} was fetched without {len(lacking)} of its {len(manifest)} files, first {lacking[0]}.",
        )
    _write_manifest(cache, repo_id, commit, manifest)
    return folder


def _check_space(repo_id: str, size: int, cache: Path, max_bytes: int | None) -> None:
    if max_bytes is not None and size > max_bytes:
        raise FetchError(
            FetchReason.TOO_LARGE, f"{repo_id} is {size:,} bytes, more than the {max_bytes:,} allowed."
        )
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if size > free:
        raise FetchError(FetchReason.DISK, f"{repo_id} needs {size:,} bytes and the disk has {free:,} free.")


def _snapshot_folder(cache: Path, repo_id: str, commit: str) -> Path:
    return cache / f"models--{repo_id.replace('/', '--')}" / "snapshots" / commit


def _manifest_file(cache: Path, repo_id: str, commit: str) -> Path:
    return cache / MANIFESTS / repo_id.replace("/", "--") / f"{commit}.json"


def _write_manifest(cache: Path, repo_id: str, commit: str, manifest: Mapping[str, int]) -> None:
    path = _manifest_file(cache, repo_id, commit)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(manifest))
    temporary.replace(path)


def _complete(cache: Path, repo_id: str, commit: str) -> Path | None:
    """The folder of a revision that was fetched whole and still is; no request is made."""
    try:
        manifest: dict[str, Any] = json.loads(_manifest_file(cache, repo_id, commit).read_text())
    except (OSError, ValueError):
        return None
    folder = _snapshot_folder(cache, repo_id, commit)
    return None if _lacking(folder, manifest) else folder


def _lacking(folder: Path, manifest: Mapping[str, int]) -> list[str]:
    """Files that are not there, or there with another size."""
    return [
        name
        for name, size in sorted(manifest.items())
        if not (folder / name).is_file() or (folder / name).stat().st_size != size
    ]


def _explain(error: BaseException, repo_id: str, revision: str) -> tuple[FetchReason, str]:
    """The reason and the sentence for an exception of the Hub's client, by the chain of its causes."""
    from huggingface_hub import errors

    for cause in causes(error):
        # The order matters: GatedRepoError is a RepositoryNotFoundError.
        if isinstance(cause, errors.GatedRepoError):
            return FetchReason.GATED, f"{repo_id} is gated and this token has no access to it."
        if isinstance(cause, errors.DisabledRepoError):
            return FetchReason.DISABLED, f"{repo_id} was disabled by the Hub."
        if isinstance(cause, errors.RevisionNotFoundError):
            return FetchReason.REVISION_NOT_FOUND, f"{repo_id} has no revision {revision}."
        if isinstance(cause, errors.RepositoryNotFoundError | errors.HFValidationError):
            return FetchReason.NOT_FOUND, f"There is no model {repo_id} on this Hub, or it is private."
    status, _ = status_of(error)
    if status in (401, 403):
        return FetchReason.UNAUTHORIZED, f"The Hub refused this token for {repo_id} (HTTP {status})."
    if status == 429:
        return FetchReason.RATE_LIMITED, f"The Hub still limits this client's rate at {repo_id} (HTTP 429)."
    if status >= 500:
        return FetchReason.SERVER_ERROR, f"The Hub failed to serve {repo_id} (HTTP {status})."
    return _explain_local(error, repo_id)


def _explain_local(error: BaseException, repo_id: str) -> tuple[FetchReason, str]:
    from huggingface_hub import errors

    for cause in causes(error):
        if isinstance(cause, OSError) and cause.errno in _DISK_ERRORS:
            return FetchReason.DISK, f"{repo_id} could not be written: {cause.strerror}."
    for cause in causes(error):
        if isinstance(cause, errors.IncompleteSnapshotError) or "onsistency check" in str(cause):
            return FetchReason.INCOMPLETE, f"{repo_id} was only partly received."
        if isinstance(cause, errors.OfflineModeIsEnabled | ConnectionError | TimeoutError):
            return FetchReason.OFFLINE, f"The Hub cannot be reached for {repo_id}."
        # The client's HTTP library is not ours to import; its class names are stable.
        if type(cause).__name__ in ("ConnectError", "ConnectTimeout", "ReadTimeout", "PoolTimeout"):
            return FetchReason.OFFLINE, f"The Hub cannot be reached for {repo_id}."
        if type(cause).__name__ in ("RemoteProtocolError", "ReadError"):
            return FetchReason.INCOMPLETE, f"The Hub broke the connection off while sending {repo_id}."
    return FetchReason.UNEXPECTED, f"{repo_id}: {type(error).__name__}: {str(error).splitlines()[0]}"
