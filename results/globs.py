"""Many globs over whole ids, matched without trying each: ``*`` is any text, ``?`` any one character."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Glob:
    """One glob; brackets are plain, since ids hold them. Most have no ``?`` and need no pattern compiled."""

    __slots__ = ("_pattern", "_text", "prefix", "suffix")

    def __init__(self, text: str) -> None:
        self._text = text
        self._pattern: re.Pattern[str] | None = None
        self.prefix, self.suffix = literal_ends(text)

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text."""
        if self._text.count("*") == 1 and "?" not in self._text:
            long_enough = len(text) >= len(self.prefix) + len(self.suffix)
            return long_enough and text.startswith(self.prefix) and text.endswith(self.suffix)
        if self._pattern is None:
            self._pattern = compiled(self._text)
        return self._pattern.fullmatch(text) is not None


@functools.cache
def _literal(char: str) -> str:
    return {"*": ".*", "?": "."}.get(char) or re.escape(char)


def compiled(glob: str) -> re.Pattern[str]:
    """A glob as a pattern for ``fullmatch``."""
    return re.compile("".join(map(_literal, glob)), re.DOTALL)


def literal_ends(glob: str) -> tuple[str, str]:
    """What every match of a glob begins and ends with: the whole of it if it holds no ``*`` or ``?``."""
    places = [place for place in (glob.find("*"), glob.find("?")) if place >= 0]
    if not places:
        return glob, glob
    return glob[: min(places)], glob[max(glob.rfind("*"), glob.rfind("?")) + 1 :]


class GlobIndex(Generic[T]):
    """Finds which of many globs match a text.

    A glob is filed under the longer of its literal beginning and end. A look-up cuts the text once for each
    length that is filed, so its time depends on how many lengths there are and hardly on how many globs.
    """

    def __init__(self, globs: Iterable[tuple[str, T]]) -> None:
        self._by_prefix: dict[int, dict[str, list[tuple[Glob, T]]]] = {}
        self._by_suffix: dict[int, dict[str, list[tuple[Glob, T]]]] = {}
        for text, value in globs:
            glob = Glob(text)
            if len(glob.prefix) >= len(glob.suffix):
                filed, key = self._by_prefix, glob.prefix
            else:
                filed, key = self._by_suffix, glob.suffix
            filed.setdefault(len(key), {}).setdefault(key, []).append((glob, value))

    def matches(self, text: str) -> Iterator[T]:
        """The values of the globs that match the whole text."""
        for length, by_key in self._by_prefix.items():
            for glob, value in by_key.get(text[:length], ()):
                if glob.matches(text):
                    yield value
        for length, by_key in self._by_suffix.items():
            for glob, value in by_key.get(text[-length:], ()):
                if glob.matches(text):
                    yield value
