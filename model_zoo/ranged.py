"""Reading a part of a file of a repository, and never more of it than was asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from model_zoo.backoff import with_backoff
from model_zoo.catalog import reaching

_TOTAL = re.compile(r"bytes \d+-\d+/(\d+)")
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a file.

    Attributes:
        total: bytes of the whole file, -1 where the server does not say.
    """

    data: bytes
    total: int


def file_url(endpoint: str, repo_id: str, revision: str, name: str) -> str:
    """Where a file of a revision is to be had."""
    return f"{endpoint}/{quote(repo_id)}/resolve/{quote(revision, safe='')}/{quote(name)}"


def read_part(url: str, start: int, stop: int, *, token: str | bool | None = None, attempts: int = 5) -> Part:
    """The bytes ``[start, stop)`` of a file, fewer where it ends before.

    A server that ignores the range is read up to ``stop`` and no further.

    Raises:
        OSError: what ``huggingface_hub`` raises for an answer that is an error, or nobody answers.
    """
    with reaching(url):
        return with_backoff(lambda: _read(url, start, stop, token), attempts=attempts)


def _read(url: str, start: int, stop: int, token: str | bool | None) -> Part:
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    headers = build_hf_headers(token=token)
    headers |= {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
    with get_session().stream("GET", url, headers=headers, follow_redirects=True, timeout=_SECONDS) as answer:
        if answer.status_code == 416:  # the file ends before
            return Part(b"", -1)
        if answer.is_error:
            answer.read()
        hf_raise_for_status(answer)
        whole = answer.status_code != 206
        skip, wanted = (start, stop) if whole else (0, stop - start)
        data = bytearray()
        for block in answer.iter_raw():
            data += block
            if len(data) >= wanted:
                break
        found = _TOTAL.fullmatch(answer.headers.get("Content-Range", ""))
        total = answer.headers.get("Content-Length", "-1") if whole else (found[1] if found else "-1")
    return Part(bytes(data[skip:wanted]), int(total))
