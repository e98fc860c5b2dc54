"""Listings that stay the same from their first page to their last, whatever changes in between."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from model_zoo.mirror.documents import Query
from model_zoo.mirror.repository import Repository

_REMEMBERED = 8
Choose = Callable[[], Sequence[Repository]]
Key = tuple[tuple[tuple[str, tuple[str, ...]], ...], str]


class Listings:
    """The last listings that clients began; safe to share by threads.

    A directory of a hundred thousand models is looked through once for a listing, not once for a page.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, Sequence[Repository]] = OrderedDict()

    def page(
        self,
        query: Query,
        token: str | None,
        start: int,
        limit: int,
        choose: Choose,
    ) -> tuple[Sequence[Repository], int]:
        """The entries from ``start`` on, at most ``limit``, and how many there are in all.

        Args:
            choose: makes the listing; called for the first page, and where it was forgotten.
        """
        key = _key(query, token)
        with self._lock:
            listed = self._known.get(key) if start else None
        if listed is None:
            listed = choose()
        with self._lock:
            self._known[key] = listed
            self._known.move_to_end(key)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return listed[start : start + limit], len(listed)


def _key(query: Query, token: str | None) -> Key:
    parts = sorted((name, tuple(values)) for name, values in query.items() if name not in ("cursor", "limit"))
    return tuple(parts), token or ""
