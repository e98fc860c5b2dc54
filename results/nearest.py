"""The known id that an unknown one may have meant, found without comparing it with all of them."""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from results.globs import Glob

_NEIGHBOURS = 60
"""Names on each side of a name's place in the alphabet, read forwards and backwards, that are compared."""

_CUTOFF = 0.6


class Nearest:
    """Ids as a tree of their ``::`` segments.

    A search keeps the segments that are known and replaces each other one by the most similar in its place.
    Of many names it compares only those that share a beginning or an end with the wrong one.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._tree: dict[str, Any] = {}
        for case in ids:
            node = self._tree
            for segment in case.split("::"):
                node = node.setdefault(segment, {})
        self._sorted: dict[int, tuple[list[str], list[str]]] = {}

    def find(self, pattern: str) -> str:
        """The nearest id, ``""`` if none is near; in a pattern ``*`` and ``?`` stand for what they match."""
        node, path = self._tree, []
        for segment in pattern.split("::"):
            if not node:
                break
            name = self._child(node, segment)
            if not name:
                return ""
            path.append(name)
            node = node[name]
        while node:  # a pattern whose ``*`` spans segments, or that stops early
            name = next(iter(node))
            path.append(name)
            node = node[name]
        return "::".join(path)

    def _child(self, node: dict[str, Any], segment: str) -> str:
        if segment in node:
            return segment
        candidates = self._around(node, segment)
        if "*" in segment or "?" in segment:
            wanted = Glob(segment)
            found = next((name for name in candidates if wanted.matches(name)), "")
            if found:
                return found
        return next(iter(difflib.get_close_matches(segment, candidates, n=1, cutoff=_CUTOFF)), "")

    def _around(self, node: dict[str, Any], segment: str) -> Sequence[str]:
        if len(node) <= 8 * _NEIGHBOURS:
            return list(node)
        if id(node) not in self._sorted:
            self._sorted[id(node)] = sorted(node), sorted(name[::-1] for name in node)
        forwards, backwards = self._sorted[id(node)]
        near = dict.fromkeys(_beside(forwards, segment))
        near.update(dict.fromkeys(name[::-1] for name in _beside(backwards, segment[::-1])))
        return list(near)


def _beside(names: list[str], name: str) -> list[str]:
    at = bisect.bisect_left(names, name)
    return names[max(at - _NEIGHBOURS, 0) : at + _NEIGHBOURS]
