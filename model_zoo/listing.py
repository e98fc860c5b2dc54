"""What files a repository has at a commit, asked with patience and with an end.

The client's own listing follows any number of pages to any address. Here pages, files and bytes are
bounded, and a page is looked for at the Hub that was asked only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

from model_zoo.backoff import BROKEN, with_backoff
from model_zoo.digests import Digest
from model_zoo.download import TIMEOUT
from model_zoo.safety import MAX_FILES, RefusedError, check_names

MAX_PAGE = 64 * 2**20  # Bytes of one answer: 1,000 files take about 0.3 MB.
MAX_PAGES = 200


def list_files(
    endpoint: str,
    repo_id: str,
    commit: str,
    headers: dict[str, str],
    *,
    attempts: int,
    sleep: Callable[[float], None],
    longest: float,
) -> dict[str, Digest]:
    """Every file of a repository with its size and hash.

    Raises:
        RefusedError: it does not end, or has a name that leads out of its folder.
        ValueError: it does not say what the files are.
        An error of the Hub's client: what the last attempt came to.
    """
    address = f"{endpoint}/api/models/{repo_id}/tree/{quote(commit, safe='')}?recursive=true&expand=false"
    files: dict[str, Digest] = {}
    for _ in range(MAX_PAGES):

        def ask(address: str = address) -> tuple[Any, str]:
            return _page(address, headers)

        entries, following = with_backoff(ask, attempts=attempts, sleep=sleep, longest=longest, also=BROKEN)
        before = len(files)
        files |= _files(entries, repo_id)
        if len(files) > MAX_FILES:
            raise RefusedError(f"{repo_id} lists more than {MAX_FILES:,} files.")
        if not following:
            check_names(files)
            return files
        if urlsplit(following)[:2] != urlsplit(address)[:2]:
            raise RefusedError(f"{repo_id} continues its listing at another host.")
        if entries and len(files) == before and all(entry.get("type") == "file" for entry in entries):
            raise RefusedError(f"{repo_id} lists the same files again and again.")
        address = following
    raise RefusedError(f"{repo_id} lists files on more than {MAX_PAGES} pages.")


def _page(address: str, headers: dict[str, str]) -> tuple[Any, str]:
    from huggingface_hub.utils import get_session, hf_raise_for_status

    with get_session().stream("GET", address, headers=headers, timeout=TIMEOUT) as response:
        if response.status_code >= 400:
            response.read()
            hf_raise_for_status(response)
        body = b"".join(_bounded(response.iter_bytes(), address))
        return _parsed(body), response.links.get("next", {}).get("url", "")


def _bounded(pieces: Iterator[bytes], address: str) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_PAGE:
            raise RefusedError(f"An answer is longer than {MAX_PAGE:,} bytes: {address.partition('?')[0]}.")
        yield piece


def _parsed(body: bytes) -> Any:
    try:
        entries = json.loads(body)
    except RecursionError:
        raise RefusedError("A listing is nested too deeply to be read.") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("a listing is no list")
    return entries


def _files(entries: Any, repo_id: str) -> dict[str, Digest]:
    found: dict[str, Digest] = {}
    for entry in entries:
        if entry.get("type") != "file":
            continue
        lfs = entry.get("lfs") or {}
        size, oid, sha256 = entry.get("size"), entry.get("oid"), lfs.get("oid", "")
        hashes = isinstance(oid, str) and isinstance(sha256, str) and _is_hex(oid) and _is_hex(sha256 or oid)
        if not isinstance(size, int) or size < 0 or not hashes:
            raise ValueError(f"{repo_id} lists {entry.get('path')!r} without its size and hash")
        found[entry["path"] if isinstance(entry.get("path"), str) else ""] = Digest(size, oid, sha256)
    return found


def _is_hex(text: str) -> bool:
    return len(text) in (40, 64) and not set(text) - set("0123456789abcdef")
