"""Sending one file: ETag, conditional and range requests (RFC 9110), and the Hub's own headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from model_zoo.mirror.digests import Digest


class RangeError(ValueError):
    """A range that lies outside the file."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """(first, last + 1) of a byte range, or None where the whole file is to be sent.

    A header that is not one plain byte range is ignored, as RFC 9110 allows.

    Raises:
        RangeError: it begins at or after the end.
    """
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", (header or "").replace(" ", ""))
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        start, end = max(size - int(match[2]), 0), size
    else:
        start = int(match[1])
        end = min(int(match[2]) + 1, size) if match[2] else size
        if match[2] and int(match[2]) < start:
            return None
    if start >= size or start >= end:
        raise RangeError
    return start, end


def send_file(
    handler: BaseHTTPRequestHandler,
    path: Path,
    digest: Digest,
    headers: Mapping[str, str],
    *,
    cut_after: int = -1,
) -> None:
    """Answer a GET or HEAD of a file.

    Args:
        cut_after: close the connection after that many bytes of the body, as a failing line does.
    """
    etag = f'"{digest.etag}"'
    common = {"ETag": etag, "Accept-Ranges": "bytes", **headers}
    if digest.sha256:
        common |= {"X-Linked-ETag": etag, "X-Linked-Size": str(digest.size)}
    if etag in handler.headers.get("If-None-Match", "") or handler.headers.get("If-None-Match") == "*":
        _head(handler, 304, common)
        return
    wanted = handler.headers.get("Range")
    if handler.headers.get("If-Range", etag) != etag:
        wanted = None
    try:
        span = parse_range(wanted, digest.size)
    except RangeError:
        _head(handler, 416, {**common, "Content-Range": f"bytes */{digest.size}", "Content-Length": "0"})
        return
    start, end = span or (0, digest.size)
    if span:
        common["Content-Range"] = f"bytes {start}-{end - 1}/{digest.size}"
    common |= {"Content-Length": str(end - start), "Content-Type": "application/octet-stream"}
    common["Content-Disposition"] = f'inline; filename="{path.name}"'
    _head(handler, 206 if span else 200, common)
    if handler.command != "HEAD":
        _body(handler, path, start, end, cut_after)


def _head(handler: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str]) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value.encode("ascii", "replace").decode())
    handler.end_headers()


def _body(handler: BaseHTTPRequestHandler, path: Path, start: int, end: int, cut_after: int) -> None:
    length = end - start
    if 0 <= cut_after < length:
        length = cut_after
        handler.close_connection = True
    if length:
        with path.open("rb") as file:
            handler.wfile.flush()
            handler.connection.sendfile(file, start, length)
