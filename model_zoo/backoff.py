"""Repeating a call to the Hub while that can help.

``huggingface_hub`` repeats list pages and file bodies by itself, but not ``model_info`` nor the
first call of ``snapshot_download``, and it reads no HTTP date in ``Retry-After`` (measured with
2.4.0). This is the part it lacks; to wrap a call that it already repeats would multiply the waits.
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

BROKEN = (
    "ConnectError",
    "ConnectTimeout",
    "PoolTimeout",
    "ReadError",
    "ReadTimeout",
    "RemoteProtocolError",
    "WriteError",
    "WriteTimeout",
)
"""Errors of a connection, by name: the HTTP library of the Hub's client is not ours to import."""

RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
LONGEST_WAIT = 300.0  # Seconds: the length of the Hub's own rate-limit window.


def causes(error: BaseException) -> Iterator[BaseException]:
    """An exception and what it came from, outermost first; the Hub's client hides causes in there."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def status_of(error: BaseException) -> tuple[int, Mapping[str, str]]:
    """HTTP status and headers of the answer behind an exception; (0, {}) if there was none."""
    for cause in causes(error):
        response = getattr(cause, "response", None)
        status = getattr(response, "status_code", None)
        if isinstance(status, int):
            return status, getattr(response, "headers", {})
    return 0, {}


def is_broken_off(error: BaseException) -> bool:
    """Whether a connection failed, rather than that an answer said no."""
    return any(type(cause).__name__ in BROKEN for cause in causes(error))


def wait_asked_for(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that ``Retry-After`` (seconds or a date) or ``RateLimit: ...;r=0;t=N`` asks for."""
    lower = {str(key).lower(): str(value) for key, value in headers.items()}
    after = lower.get("retry-after", "").strip()
    if after.isdigit():
        return float(after)
    if after:
        try:
            date = email.utils.parsedate_to_datetime(after)
        except ValueError:
            return None
        return max(date.timestamp() - (time.time() if now is None else now), 0.0)
    limit = re.search(r"\br=0\b.*?\bt=(\d+)", lower.get("ratelimit", ""))
    return float(limit[1]) if limit else None


def with_backoff(
    call: Callable[[], T],
    *,
    attempts: int = 5,
    base: float = 1.0,
    longest: float = LONGEST_WAIT,
    sleep: Callable[[float], None] = time.sleep,
    also: Sequence[str | type[BaseException]] = (),
) -> T:
    """Call until it succeeds, fails for good, or has failed ``attempts`` times.

    Only answers that a later try can change are tried again: 408, 425, 429 and 5xx. The wait is what
    the answer asks for, else ``base`` seconds doubling each time; an answer that asks for more than
    ``longest`` seconds is not waited for.

    Args:
        also: errors that are tried again too, by class or by the name of their class.

    Raises:
        whatever the last call raised.
    """
    for attempt in range(1, attempts + 1):
        try:
            return call()
        except Exception as error:
            status, headers = status_of(error)
            wait = wait_asked_for(headers)
            if wait is None:
                wait = base * 2 ** (attempt - 1)
            worth = status in RETRIED_STATUSES or (not status and _is_one_of(error, also))
            if not worth or attempt == attempts or wait > longest:
                raise
            sleep(wait)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _is_one_of(error: BaseException, kinds: Sequence[str | type[BaseException]]) -> bool:
    return any(
        type(cause).__name__ == kind if isinstance(kind, str) else isinstance(cause, kind)
        for cause in causes(error)
        for kind in kinds
    )
