"""Following an event log while another process writes it."""

from __future__ import annotations

from pathlib import Path


def appended(log: Path, offset: int, end: int | None = None) -> bytes:
    """The whole lines of a log from byte ``offset`` on, as far as byte ``end`` or all that are there.

    A line still being written is left for the next look; a log that is not there yet has no lines.
    """
    try:
        with log.open("rb") as file:
            file.seek(offset)
            data = file.read() if end is None else file.read(max(0, end - offset))
    except FileNotFoundError:
        return b""
    return data[: data.rfind(b"\n") + 1]
