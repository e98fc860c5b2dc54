"""Remembers headers by revision: what was read once is not asked for again, nor lost in a night cut short."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from model_zoo.catalog import CatalogEntry
from model_zoo.headers import LASTING, LIMIT, HeaderError, digest, read_tensors

_CHUNK = 200
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Checked:
    """What is known of a model's header.

    Attributes:
        digest: of its tensors, ``""`` if it says nothing.
        why: the sentence for that, else ``""``.
        lasting: whether it will say the same tomorrow.
    """

    digest: str
    why: str = ""
    lasting: bool = True


@contextlib.contextmanager
def header_book(path: Path) -> Iterator[HeaderBook]:
    """Open a book, made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS headers (repo TEXT, revision TEXT, digest TEXT, why TEXT, "
            "PRIMARY KEY (repo, revision)) WITHOUT ROWID"
        )
        yield HeaderBook(connection)


class HeaderBook:
    """Headers by model and revision."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def check(
        self,
        entries: Sequence[CatalogEntry],
        endpoint: str,
        *,
        token: str | bool | None = None,
        limit: int = LIMIT,
        attempts: int = 5,
        progress: Callable[[int], None] = lambda _: None,
    ) -> dict[str, Checked]:
        """What is known of the headers of some models, by id; what is not is read first.

        ``progress`` is told how many were read so far.
        """
        found: dict[str, Checked] = {}
        unknown = []
        for entry in entries:
            known = self._find(entry)
            if known is None:
                unknown.append(entry)
            else:
                found[entry.id] = known

        def read(entry: CatalogEntry) -> Checked:
            try:
                tensors = read_tensors(entry, endpoint, token=token, limit=limit, attempts=attempts)
            except HeaderError as error:
                return Checked("", str(error), error.reason in LASTING)
            return Checked(digest(tensors))

        with ThreadPoolExecutor(_THREADS) as pool:
            for start in range(0, len(unknown), _CHUNK):
                chunk = unknown[start : start + _CHUNK]
                checked = dict(zip(chunk, pool.map(read, chunk), strict=True))
                self._keep(checked.items())
                found |= {entry.id: one for entry, one in checked.items()}
                progress(start + len(chunk))
        return found

    def _find(self, entry: CatalogEntry) -> Checked | None:
        row = self._connection.execute(
            "SELECT digest, why FROM headers WHERE repo = ? AND revision = ?", (entry.id, entry.revision)
        ).fetchone()
        return Checked(*row) if row else None

    def _keep(self, checked: Iterable[tuple[CatalogEntry, Checked]]) -> None:
        rows = [(e.id, e.revision, one.digest, one.why) for e, one in checked if one.lasting]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO headers VALUES (?, ?, ?, ?)", rows)
