"""The JSON documents of the Hub's API, made from repositories: pure functions, no HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from model_zoo.mirror.repository import Repository

Query = Mapping[str, Sequence[str]]
"""A parsed query string: every key with all its values."""

_SUFFIXES = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_BASIC = ("likes", "private", "downloads", "tags", "pipeline_tag", "library_name", "createdAt")
_CONFIG_KEYS = ("architectures", "model_type", "auto_map")
_SORT_FIELDS = {
    "downloads": "downloads",
    "likes": "likes",
    "createdAt": "created_at",
    "lastModified": "last_modified",
}
EXPANDABLE = frozenset(
    {"author", "baseModels", "cardData", "childrenModelCount", "config", "createdAt", "disabled", "downloads"}
    | {"downloadsAllTime", "evalResults", "gated", "gguf", "inference", "inferenceProviderMapping"}
    | {"lastModified", "library_name", "likes", "mask_token", "model-index", "pipeline_tag", "private"}
    | {"resourceGroup", "safetensors", "sha", "siblings", "spaces", "tags", "transformersInfo"}
    | {"trendingScore", "usedStorage", "widgetData", "xetEnabled"}
)
"""Fields that the Hub lets a client ask for; those that a mirror does not know are left out of its answer."""
_FULL = (*_BASIC, "author", "sha", "gated", "lastModified", "siblings", "disabled")


class BadQueryError(ValueError):
    """A query that the Hub would refuse; the text goes to the client."""


def first(query: Query, key: str, default: str = "") -> str:
    """The first value of a key."""
    values = query.get(key)
    return values[0] if values else default


def is_true(query: Query, key: str) -> bool:
    """Whether a flag is set, in any of the spellings clients send."""
    return first(query, key).lower() in ("true", "1")


def properties(repo: Repository, *, blobs: bool = False) -> dict[str, Any]:
    """Every property of a model that the mirror knows; times it does not know are left out."""
    meta = repo.metadata
    config = {key: repo.config[key] for key in _CONFIG_KEYS if key in repo.config}
    known: dict[str, Any] = {
        "author": repo.author,
        "sha": repo.sha,
        "private": meta.private,
        "disabled": False,
        "gated": meta.gated,
        "downloads": meta.downloads,
        "likes": meta.likes,
        "tags": repo.tags,
        "pipeline_tag": meta.pipeline_tag,
        "library_name": repo.library,
        "createdAt": meta.created_at,
        "lastModified": meta.last_modified,
        "config": config or None,
        "usedStorage": sum(file.size for file in repo.files.values()),
        "siblings": siblings(repo, blobs=blobs),
    }
    if repo.parameters:
        known["safetensors"] = {"parameters": repo.parameters, "total": sum(repo.parameters.values())}
    return {key: value for key, value in known.items() if value is not None}


def siblings(repo: Repository, *, blobs: bool) -> list[dict[str, Any]]:
    """The files, with sizes and hashes where the client asked for them."""
    listed: list[dict[str, Any]] = []
    for name, file in repo.files.items():
        entry: dict[str, Any] = {"rfilename": name}
        if blobs:
            entry |= {"size": file.size, "blobId": file.blob_id}
            if file.sha256:
                entry["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": file.pointer_size}
        listed.append(entry)
    return listed


def model_document(repo: Repository, query: Query, default: Sequence[str] | None = None) -> dict[str, Any]:
    """One model as the info and list calls give it: ``expand`` picks, else ``default``, else all."""
    known = properties(repo, blobs=is_true(query, "blobs"))
    wanted = query.get("expand") or query.get("expand[]") or default
    if wanted is not None:
        unknown = sorted(set(wanted) - EXPANDABLE)
        if unknown:
            raise BadQueryError(f'"expand" must not be {unknown[0]!r}')
        known = {key: known[key] for key in wanted if key in known}
    return {"id": repo.id, "modelId": repo.id, **known}


def chosen(repos: Sequence[Repository], query: Query) -> list[Repository]:
    """The models that a list call selects, in its order."""
    return _ordered([repo for repo in repos if selects(repo, query)], first(query, "sort"))


def list_documents(repos: Sequence[Repository], query: Query) -> list[dict[str, Any]]:
    """One page of models as a list call gives them."""
    default = list(_FULL if is_true(query, "full") else _BASIC)
    if is_true(query, "config"):
        default.append("config")
    return [model_document(repo, query, default) for repo in repos]


def selects(repo: Repository, query: Query) -> bool:
    """Whether a repository passes every filter of a list call."""
    tags = set(repo.tags)
    wanted = [tag for value in query.get("filter", ()) for tag in value.split(",") if tag]
    author, search, task = first(query, "author"), first(query, "search"), first(query, "pipeline_tag")
    gated = first(query, "gated").lower()
    return (
        all(tag in tags for tag in wanted)
        and (not author or repo.author == author)
        and search.lower() in repo.id.lower()
        and (not task or repo.metadata.pipeline_tag == task)
        and (not gated or bool(repo.metadata.gated) == (gated == "true"))
        and _in_range(sum(repo.parameters.values()), first(query, "num_parameters"))
    )


def _ordered(repos: list[Repository], sort: str) -> list[Repository]:
    by_id = sorted(repos, key=lambda repo: repo.id)
    if sort in ("", "trendingScore"):
        return by_id
    if sort not in _SORT_FIELDS:
        raise BadQueryError(f"cannot sort by {sort!r}")
    unknown: int | str = 0 if sort in ("downloads", "likes") else ""
    return sorted(by_id, key=lambda repo: getattr(repo.metadata, _SORT_FIELDS[sort]) or unknown, reverse=True)


def _in_range(parameters: int, text: str) -> bool:
    """Whether a count lies in a range such as ``min:6B,max:128B``."""
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(min|max):(\d+(?:\.\d+)?)([KMBT]?)", part)
        if match is None:
            raise BadQueryError(f"cannot read the range {text!r}")
        bound = float(match[2]) * _SUFFIXES[match[3]]
        if not (parameters >= bound if match[1] == "min" else parameters <= bound):
            return False
    return True


def tree_documents(repo: Repository, below: str, *, recursive: bool) -> list[dict[str, Any]] | None:
    """The entries of a folder of a repository; None if there is no such folder."""
    prefix = f"{below}/" if below else ""
    entries: dict[str, dict[str, Any]] = {}
    for name in repo.files:
        if not name.startswith(prefix):
            continue
        parts = name[len(prefix) :].split("/")
        depth = len(parts) if recursive else 1
        for level in range(1, min(depth, len(parts) - 1) + 1):
            folder = prefix + "/".join(parts[:level])
            entries[folder] = {"type": "directory", "oid": repo.sha, "size": 0, "path": folder}
        if recursive or len(parts) == 1:
            entries[name] = file_document(repo, name)
    return list(entries.values()) if entries or not below else None


def file_document(repo: Repository, name: str) -> dict[str, Any]:
    """One file as the tree and paths-info calls give it."""
    file = repo.files[name]
    entry: dict[str, Any] = {"type": "file", "oid": file.blob_id, "size": file.size, "path": name}
    if file.sha256:
        entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": file.pointer_size}
    return entry


def refs_document(repo: Repository) -> dict[str, Any]:
    """Branches and tags: the one branch there is."""
    main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repo.sha}
    return {"branches": [main], "converts": [], "tags": [], "pullRequests": []}


def commits_document(repo: Repository) -> list[dict[str, Any]]:
    """The history: the one commit there is."""
    date = repo.metadata.last_modified or "1970-01-01T00:00:00.000Z"
    return [{"id": repo.sha, "title": "Mirrored", "message": "", "authors": [], "date": date}]
