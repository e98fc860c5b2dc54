"""Cut a graph that does not compile, though each of its calls does, into spans that do.

The graph is halved, and each half that does not compile again, until what is left is single calls or the
search has cost enough. What was not brought to compile runs eagerly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

# Each attempt compiles a part of the graph. For one place at fault these are enough down to a single call
# among two thousand.
ATTEMPTS = 24
SECONDS = 120.0


class Span(NamedTuple):
    """The calls from ``start`` up to ``end``, in the graph's order; ``eager`` if they do not compile."""

    start: int
    end: int
    eager: bool


def find_spans(
    calls: int, compiles: Callable[[int, int], bool], attempts: int = ATTEMPTS, seconds: float = SECONDS
) -> list[Span]:
    """Spans that cover ``calls`` calls, which do not compile as a whole; no two eager ones are neighbours.

    ``compiles`` tries the calls from a start up to an end; it is asked at most ``attempts`` times, and not
    again once ``seconds`` have passed.
    """
    deadline = time.monotonic() + seconds
    failing, spans = [(0, calls)], []
    while failing:
        start, end = failing.pop()
        if end - start == 1 or attempts < 2 or time.monotonic() > deadline:
            spans.append(Span(start, end, eager=True))
            continue
        middle = (start + end) // 2
        for half in ((start, middle), (middle, end)):
            attempts -= 1
            if compiles(*half):
                spans.append(Span(*half, eager=False))
            else:
                failing.append(half)
    return _joined(sorted(spans))


def _joined(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].eager and span.eager:
            joined[-1] = Span(joined[-1].start, span.end, eager=True)
        else:
            joined.append(span)
    return joined
