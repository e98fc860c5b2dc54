"""Conditions of a query, each with its parameter: what a reader types never becomes SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Where:
    """The ``WHERE`` of a query, collected from the filters of a page."""

    def __init__(self, condition: str, *params: Any) -> None:
        self._conditions = [condition]
        self.params: list[Any] = list(params)

    @property
    def sql(self) -> str:
        """The conditions, without the word WHERE."""
        return " AND ".join(f"({condition})" for condition in self._conditions)

    @property
    def narrowed(self) -> bool:
        """Whether a filter was added to what it began with."""
        return len(self._conditions) > 1

    def add(self, condition: str, *params: Any) -> None:
        """One more condition."""
        self._conditions.append(condition)
        self.params.extend(params)

    def among(self, column: str, choices: Sequence[str]) -> None:
        """The column is one of these; nothing chosen means no condition."""
        if choices:
            self.add(f"list_contains(?, {column})", list(choices))

    def containing(self, text: str, *columns: str) -> None:
        """Each word of the text stands in one of the columns, whatever its case."""
        joined = " || ' ' || ".join(columns)
        for word in text.split():
            self.add(f"contains(lower({joined}), lower(?))", word)
