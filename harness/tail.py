"""Following an event log while another process writes it."""

from __future__ import annotations

from pathlib import Path

from results.events import Record, decode


class LogTail:
    """Reads what was appended to a log since the last look; the file may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> list[Record]:
        """Records that are whole by now; a line still being written is left for the next look."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        return [decode(line.decode("ascii", "replace")) for line in data[:whole].splitlines()]
