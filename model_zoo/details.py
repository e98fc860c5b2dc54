"""What a listing leaves out of a model: the configuration, which decides its class, and sizes of files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from model_zoo.backoff import with_backoff
from model_zoo.catalog import CatalogEntry, reaching
from model_zoo.classes import relevant
from model_zoo.ranged import file_url, read_part

LARGEST_CONFIG = 2**20
"""Bytes of a ``config.json`` beyond which it is not read."""

_MOST_PATHS = 500
_THREADS = 8


def with_details(
    entries: Sequence[CatalogEntry],
    endpoint: str,
    known: Mapping[str, CatalogEntry],
    *,
    token: str | bool | None = None,
    attempts: int = 5,
) -> list[CatalogEntry]:
    """The entries with ``config`` and ``sizes``, at two requests each; what cannot be had stays unknown.

    Args:
        known: entries of an earlier snapshot by id: one of the same revision is not asked for again.

    Raises:
        OSError: the Hub cannot be reached, or limits this client's rate for longer than is waited.
    """

    def complete(entry: CatalogEntry) -> CatalogEntry:
        before = known.get(entry.id)
        if before is not None and before.revision == entry.revision and (before.config or before.sizes):
            return dataclasses.replace(entry, config=before.config, sizes=before.sizes)
        if not entry.architecture or not entry.files:
            return entry
        config = _config(entry, endpoint, token, attempts)
        return dataclasses.replace(entry, config=config, sizes=_sizes(entry, endpoint, token, attempts))

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(complete, entries))


def _config(entry: CatalogEntry, endpoint: str, token: str | bool | None, attempts: int) -> str:
    from huggingface_hub.errors import HfHubHTTPError

    url = file_url(endpoint, entry.id, entry.revision, "config.json")
    try:
        part = read_part(url, 0, LARGEST_CONFIG + 1, token=token, attempts=attempts)
        config = json.loads(part.data)
    except HfHubHTTPError as error:
        _raise_if_passing(error)
        return ""
    except (ValueError, RecursionError):
        return ""
    return relevant(config) if isinstance(config, dict) else ""


def _sizes(entry: CatalogEntry, endpoint: str, token: str | bool | None, attempts: int) -> tuple[int, ...]:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    if len(entry.files) > _MOST_PATHS:
        return ()
    api = HfApi(endpoint=endpoint, token=token)

    def ask() -> list[Any]:
        return api.get_paths_info(entry.id, list(entry.files), revision=entry.revision)

    try:
        with reaching(endpoint):
            found = {info.path: getattr(info, "size", 0) for info in with_backoff(ask, attempts=attempts)}
    except HfHubHTTPError as error:
        _raise_if_passing(error)
        return ()
    return tuple(found.get(name, 0) for name in entry.files)


def _raise_if_passing(error: Any) -> None:
    """A fault that may pass stops a snapshot, which goes on later; one of the model's own does not."""
    status = error.response.status_code if error.response is not None else 0
    if status in (0, 408, 425, 429) or status >= 500:
        raise error
