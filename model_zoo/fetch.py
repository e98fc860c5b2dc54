"""Brings one repository into a cache: whole, or not with a named reason.

A pinned revision that was fetched before costs no request. A folder is returned only when every file of it
is there with the size and hash that the Hub states: the Hub's client returns a partial cache as a success
(measured with 2.4.0: a gated repository of which one file had been cached). Needs no torch.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from model_zoo.backoff import BROKEN, causes, is_broken_off, status_of, with_backoff
from model_zoo.cache import ModelCache, NoRoomError, sweep_incomplete
from model_zoo.digests import Digest
from model_zoo.download import CorruptError, ShortError, download
from model_zoo.listing import list_files
from model_zoo.safety import RefusedError, read_json
from model_zoo.support import is_adapter, other_formats

__all__ = ["FetchError", "FetchReason", "fetch", "sweep_incomplete", "wanted_files"]

LONGEST_WAIT = 60.0
"""Seconds that one answer may ask to be waited for; a stage has a deadline of its own."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}
_AT_ONCE = 4


class FetchReason(StrEnum):
    """Why a repository could not be fetched."""

    NOT_FOUND = "not_found"
    GATED = "gated"
    REVISION_NOT_FOUND = "revision_not_found"
    UNAUTHORIZED = "unauthorized"
    DISABLED = "disabled"
    NO_WEIGHTS = "no_weights"
    ADAPTER = "adapter"
    TOO_LARGE = "too_large"
    REFUSED = "refused"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    OFFLINE = "offline"
    INCOMPLETE = "incomplete"
    CORRUPT = "corrupt"
    DISK = "disk"
    UNEXPECTED = "unexpected"


class FetchError(RuntimeError):
    """A repository that could not be fetched; ``reason`` says which kind of failure it is."""

    def __init__(self, reason: FetchReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How a repository is fetched.

    Attributes:
        token: as ``huggingface_hub`` takes it; None uses the saved one.
        max_bytes: largest sum of file sizes to fetch.
        budget: most bytes of the whole cache; what was not used for longest goes first. 0 is no limit.
        attempts: how often a failing server is asked, for each call.
        sleep: waits between them.
        with_code: fetch the repository's Python files too.
        check: is given the parsed ``config.json`` before any weights are fetched; what it raises is raised.
        hold: keep the snapshot from eviction until this process ends.
        ahead: this is no use of the snapshot, only a preparation for one.
    """

    token: str | bool | None = None
    max_bytes: int | None = None
    budget: int = 0
    attempts: int = 5
    sleep: Callable[[float], None] = time.sleep
    with_code: bool = False
    check: Callable[[Mapping[str, Any]], object] | None = None
    hold: bool = False
    ahead: bool = False


def fetch(
    repo_id: str, revision: str, cache_dir: Path | str, endpoint: str | None = None, **options: Any
) -> Path:
    """Fetch configuration and weights of a repository and return their folder.

    JSON files and safetensors weights are fetched; pickled weights only where there are no others.

    Args:
        revision: a 40-hex commit hash, or a name that is looked up first.
        cache_dir: in the layout of ``HF_HUB_CACHE``; nothing is written elsewhere.
        endpoint: of the Hub or a mirror; the default is ``HF_ENDPOINT`` as it was at import.
        options: those of :class:`FetchOptions`.

    Raises:
        FetchError: with the reason.
    """
    fetching = _Fetching(repo_id, ModelCache(Path(cache_dir)), endpoint, FetchOptions(**options))
    with_reason = partial(_with_reason, repo_id, revision)
    commit: str = with_reason(lambda: fetching.resolve(revision))
    fetching.cache.hold(repo_id, commit, touch=not fetching.options.ahead)
    try:
        known = fetching.cache.complete(repo_id, commit)
        if known is not None:
            return known
        files: dict[str, Digest] = with_reason(lambda: fetching.choose(commit))
        config = with_reason(lambda: fetching.configuration(commit, files))
        if fetching.options.check is not None and config is not None:
            fetching.options.check(config)
        folder: Path = with_reason(lambda: fetching.bring(commit, files))
        return folder
    finally:
        if not fetching.options.hold:
            fetching.cache.let_go(repo_id, commit)


def wanted_files(sizes: Mapping[str, object], *, with_code: bool = False) -> list[str]:
    """Which files of a repository to fetch: all JSON, and weights of one format.

    Weights at the top are preferred to those in folders (exports, other precisions), and the
    library's own names (``model*.safetensors``) to other files at the top (consolidated copies).
    """
    beside = [name for name in sizes if name.endswith(".json") or (with_code and name.endswith(".py"))]
    for suffix, stem in ((".safetensors", "model"), (".bin", "pytorch_model")):
        found = [name for name in sizes if name.endswith(suffix)]
        top = [name for name in found if "/" not in name]
        weights = [name for name in top if name.startswith(stem)] or top or found
        if suffix == ".bin":
            weights = [name for name in weights if Path(name).name.startswith(stem)]
        if weights:
            return sorted(beside + weights)
    return []


@dataclass
class _Fetching:
    """One repository on its way."""

    repo_id: str
    cache: ModelCache
    endpoint: str | None
    options: FetchOptions
    headers: dict[str, str] = field(default_factory=dict)

    def resolve(self, revision: str) -> str:
        """The commit of a revision; a hash needs no request, and nothing is imported for it."""
        if not _ID.fullmatch(self.repo_id) or "--" in self.repo_id or ".." in self.repo_id:
            raise FetchError(FetchReason.NOT_FOUND, f"There is no model {self.repo_id[:200]!r} on any Hub.")
        if _COMMIT.fullmatch(revision):
            return revision
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self.endpoint, token=self.options.token)
        info = self._patiently(lambda: api.model_info(self.repo_id, revision=revision))
        commit = str(info.sha)
        if not _COMMIT.fullmatch(commit):
            raise FetchError(FetchReason.UNEXPECTED, f"The Hub gives {self.repo_id} no commit hash.")
        return commit

    def choose(self, commit: str) -> dict[str, Digest]:
        """The files to fetch, if the repository is of a kind that can be used and not too large."""
        from huggingface_hub import constants
        from huggingface_hub.utils import build_hf_headers

        self.endpoint = (self.endpoint or constants.ENDPOINT).rstrip("/")
        self.headers = build_hf_headers(token=self.options.token)
        listed = list_files(
            self.endpoint,
            self.repo_id,
            commit,
            self.headers,
            attempts=self.options.attempts,
            sleep=self.options.sleep,
            longest=LONGEST_WAIT,
        )
        names = wanted_files(listed, with_code=self.options.with_code)
        if is_adapter(listed):
            raise FetchError(FetchReason.ADAPTER, f"{self.repo_id} is an adapter to another model.")
        if not names:
            others = ", ".join(other_formats(listed))
            raise FetchError(
                FetchReason.NO_WEIGHTS,
                f"{self.repo_id} holds no weights in safetensors or PyTorch's own format"
                + (f", only {others}." if others else "."),
            )
        files = {name: listed[name] for name in names}
        size, most = sum(digest.size for digest in files.values()), self.options.max_bytes
        if most is not None and size > most:
            raise FetchError(
                FetchReason.TOO_LARGE, f"{self.repo_id} is {size:,} bytes, more than the {most:,} allowed."
            )
        return files

    def configuration(self, commit: str, files: Mapping[str, Digest]) -> Mapping[str, Any] | None:
        """The parsed ``config.json``, fetched first; None where there is none that can be parsed."""
        if self.options.check is None or "config.json" not in files:
            return None
        self._reserve(commit, files["config.json"].size)
        self._download(commit, "config.json", files["config.json"])
        try:
            config = read_json(self.cache.blob(self.repo_id, files["config.json"]))
        except RefusedError:
            raise
        except ValueError:
            return None  # Loading says what is wrong with it.
        return config if isinstance(config, dict) else None

    def bring(self, commit: str, files: Mapping[str, Digest]) -> Path:
        """Download what is lacking and make it a snapshot."""
        self._reserve(commit, sum(digest.size for digest in files.values()))
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fetch") as pool:
            running = [pool.submit(self._download, commit, name, digest) for name, digest in files.items()]
            try:
                for future in running:
                    future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return self.cache.settle(self.repo_id, commit, files)

    def _reserve(self, commit: str, size: int) -> None:
        self.cache.reserve(self.repo_id, commit, size, self.options.budget, sleep=self.options.sleep)

    def _download(self, commit: str, name: str, digest: Digest) -> None:
        download(
            f"{self.endpoint}/{self.repo_id}/resolve/{commit}/{quote(name)}",
            self.cache.blob(self.repo_id, digest),
            digest,
            headers=self.headers,
            attempts=self.options.attempts,
            sleep=self.options.sleep,
        )

    def _patiently(self, call: Callable[[], Any]) -> Any:
        return with_backoff(
            call, attempts=self.options.attempts, sleep=self.options.sleep, longest=LONGEST_WAIT, also=BROKEN
        )


def _with_reason(repo_id: str, revision: str, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except FetchError:
        raise
    except RefusedError as error:
        raise FetchError(FetchReason.REFUSED, str(error)) from error
    except Exception as error:
        reason, sentence = _explain(error, repo_id, revision)
        raise FetchError(reason, sentence) from error


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
        if isinstance(cause, NoRoomError):
            return FetchReason.DISK, f"{repo_id} has no room: {cause}."
        if isinstance(cause, OSError) and cause.errno in _DISK_ERRORS:
            return FetchReason.DISK, f"{repo_id} could not be written: {cause.strerror}."
    for cause in causes(error):
        if isinstance(cause, CorruptError):
            return FetchReason.CORRUPT, f"The Hub sends other bytes of {repo_id} than it lists: {cause}."
        if isinstance(cause, ShortError):
            return FetchReason.INCOMPLETE, f"{repo_id} was only partly received: {cause}."
        if isinstance(cause, errors.OfflineModeIsEnabled | ConnectionError | TimeoutError):
            return FetchReason.OFFLINE, f"The Hub cannot be reached for {repo_id}."
        if type(cause).__name__ in ("ConnectError", "ConnectTimeout", "ReadTimeout", "PoolTimeout"):
            return FetchReason.OFFLINE, f"The Hub cannot be reached for {repo_id}."
    if is_broken_off(error):
        return FetchReason.INCOMPLETE, f"The Hub broke the connection off while sending {repo_id}."
    return (
        FetchReason.UNEXPECTED,
        f"{repo_id}: {type(error).__name__}: {(str(error) or 'no message').splitlines()[0]}.",
    )
