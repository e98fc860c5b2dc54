"""Following an event log while another process writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from results.events import EventLogError, Record, decode


class LogTail:
    """Reads what was appended to a log since the last look; the file may not exist yet.

    Attributes:
        offset: bytes of the records given so far.
        seq: number of the next record.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.offset = 0
        self.seq = 0

    def new(self) -> list[Record]:
        """Records that are whole by now; a line still being written is left for the next look.

        Raises:
            EventLogError: a line is no record, or not the next one.
        """
        return list(self.records())

    def records(self) -> Iterator[Record]:
        """The same one by one; a record counts as given when the next one is asked for."""
        try:
            with self._path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            record = decode(line.decode("ascii", "replace"))
            if record.seq != self.seq:
                raise EventLogError(f"expected record {self.seq}, found {record.seq}")
            yield record
            self.offset += len(line)
            self.seq += 1
