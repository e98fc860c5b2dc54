"""Sending one file: ETag, conditional and range requests (RFC 9110), and the Hub's own headers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Protocol

from model_zoo.digests import Digest
from model_zoo.mirror.faults import Fault

_PIECE = 2**14


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


class Content(Protocol):
    """Bytes of a file that may still be on their way."""

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes from ``start`` up to ``end``.

        Raises:
            OSError: they do not come.
        """


def send_file(
    handler: BaseHTTPRequestHandler,
    content: Path | Content,
    name: str,
    digest: Digest,
    headers: Mapping[str, str],
    fault: Fault,
) -> None:
    """Answer a GET or HEAD of a file, with the fault that was asked for."""
    etag = f'"{fault.etag or digest.etag}"'
    common = {"ETag": etag, "Accept-Ranges": "bytes", **headers}
    if digest.sha256:
        common |= {"X-Linked-ETag": etag, "X-Linked-Size": str(digest.size)}
    if etag in handler.headers.get("If-None-Match", "") or handler.headers.get("If-None-Match") == "*":
        send_head(handler, 304, common)
        return
    wanted = handler.headers.get("Range")
    if handler.headers.get("If-Range", etag) != etag:
        wanted = None
    try:
        span = parse_range(wanted, digest.size)
    except RangeError:
        send_head(handler, 416, {**common, "Content-Range": f"bytes */{digest.size}", "Content-Length": "0"})
        return
    start, end = span or (0, digest.size)
    if span:
        common["Content-Range"] = f"bytes {start}-{end - 1}/{digest.size}"
    common |= {"Content-Length": str(end - start), "Content-Type": "application/octet-stream"}
    common["Content-Disposition"] = f'inline; filename="{Path(name).name}"'
    send_head(handler, 206 if span else 200, common)
    if handler.command != "HEAD":
        _body(handler, content, start, end, fault)


def send_head(handler: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str]) -> None:
    """Send the status line and headers; a header is one line of ASCII, whatever a file is called."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, "".join(c if " " <= c <= "~" else "?" for c in value))
    handler.end_headers()


def _body(
    handler: BaseHTTPRequestHandler, content: Path | Content, start: int, end: int, fault: Fault
) -> None:
    length = end - start
    if 0 <= fault.cut_after < length:
        length = fault.cut_after
        handler.close_connection = True
    if not length:
        return
    if isinstance(content, Path) and not (fault.rate or fault.garble):
        with content.open("rb") as file:
            handler.wfile.flush()
            handler.connection.sendfile(file, start, length)
        return
    try:
        for piece in _pieces(content, start, start + length):
            if fault.rate:
                time.sleep(len(piece) / fault.rate)
            handler.wfile.write(_garbled(piece) if fault.garble else piece)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except OSError:
        handler.close_connection = True  # The head is out; that less came than it says tells the client.


def _pieces(content: Path | Content, start: int, end: int) -> Iterator[bytes]:
    if not isinstance(content, Path):
        yield from content.pieces(start, end)
        return
    with content.open("rb") as file:
        file.seek(start)
        while start < end and (piece := file.read(min(_PIECE, end - start))):
            start += len(piece)
            yield piece


def _garbled(piece: bytes) -> bytes:
    return bytes(byte ^ 0xFF for byte in piece)
