"""The Hub's listing of models a page at a time, most downloaded first, each with the address of the next.

``HfApi.list_models`` yields models and keeps the address to itself; a walk that is to go on tomorrow where it
stopped today needs it. Needs no torch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from model_zoo.backoff import BROKEN, with_backoff
from model_zoo.catalog import CatalogError, reaching

PAGE = 1000
"""Models of a page; the Hub gives no more."""

LARGEST_PAGE = 256 * 2**20
"""Bytes of a page beyond which it is not read."""

_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Page:
    """Some models of a listing.

    Attributes:
        models: as the Hub describes each, JSON objects.
        following: address of the next page, ``""`` after the last.
    """

    models: list[dict[str, Any]]
    following: str


def first_page(endpoint: str, expand: Sequence[str], limit: int = PAGE) -> str:
    """Address of the first page; ``expand`` names the properties that are wanted of each model."""
    query = {"sort": "downloads", "direction": "-1", "limit": str(limit), "expand": list(expand)}
    return f"{endpoint}/api/models?{urlencode(query, doseq=True)}"


def read_page(url: str, *, token: str | bool | None = None, attempts: int = 5) -> Page:
    """Read one page.

    Raises:
        CatalogError: it is no page of a listing, or sends the reader to another host.
        OSError: the Hub cannot be reached, refuses, or keeps failing.
    """
    with reaching(url):
        return with_backoff(lambda: _read(url, token), attempts=attempts, also=BROKEN)


def _read(url: str, token: str | bool | None) -> Page:
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    headers = build_hf_headers(token=token)
    with get_session().stream("GET", url, headers=headers, follow_redirects=True, timeout=_SECONDS) as answer:
        if answer.is_error:
            answer.read()
        hf_raise_for_status(answer)
        body = bytearray()
        for block in answer.iter_bytes():
            body += block
            if len(body) > LARGEST_PAGE:
                raise CatalogError(f"{url} is larger than {LARGEST_PAGE:,} bytes, which no listing is")
        following = answer.links.get("next", {}).get("url", "")
    try:
        models = json.loads(body)
    except (ValueError, RecursionError):
        models = None
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        raise CatalogError(f"{url} does not answer with a listing of models; is it a Hub?")
    return Page(models, _checked(url, following))


def _checked(url: str, following: str) -> str:
    """The address of the next page, which never takes the token to another host."""
    if not following:
        return ""
    following = urljoin(url, following)
    if urlsplit(following)[:2] != urlsplit(url)[:2]:
        raise CatalogError(f"the listing of {url} goes on at {following}, another host; it is not followed")
    return following
