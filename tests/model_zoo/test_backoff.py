"""Which failures are tried again, how often, and after how long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from model_zoo.backoff import causes, status_of, wait_asked_for, with_backoff


def http_error(status: int, **headers: str) -> OSError:
    error = OSError(f"HTTP {status}")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error.response = SimpleNamespace(status_code=status, headers=named)  # type: ignore[attr-defined]
    return error


class Flaky:
    """Raises its errors one by one, then returns "done"."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.calls = list(errors), 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 60.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"RateLimit": '"api";r=0;t=33'}, 33.0),
        ({"RateLimit": '"api";r=5;t=33'}, None),
    ],
)
def test_what_an_answer_asks_for(headers: dict[str, str], expected: float | None) -> None:
    assert wait_asked_for(headers, now=40.0) == expected


def test_waits_double_and_what_the_answer_asks_goes_first() -> None:
    waits: list[float] = []
    call = Flaky(http_error(503), http_error(429, Retry_After="9"), http_error(500))
    assert with_backoff(call, sleep=waits.append) == "done"
    assert waits == [1.0, 9.0, 4.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 416])
def test_an_answer_that_will_not_change_is_not_asked_for_again(status: int) -> None:
    call = Flaky(http_error(status))
    with pytest.raises(OSError, match=str(status)):
        with_backoff(call, sleep=lambda _: None)
    assert call.calls == 1


def test_it_gives_up_with_the_last_error() -> None:
    call = Flaky(*[http_error(503)] * 9)
    with pytest.raises(OSError, match="503"):
        with_backoff(call, attempts=3, sleep=lambda _: None)
    assert call.calls == 3


def test_it_does_not_wait_for_an_hour() -> None:
    call = Flaky(http_error(429, Retry_After="3600"))
    waits: list[Any] = []
    with pytest.raises(OSError, match="429"):
        with_backoff(call, sleep=waits.append)
    assert waits == []


def test_the_status_is_found_behind_a_wrapping_error() -> None:
    inner = http_error(503, Retry_After="2")
    outer = FileNotFoundError("looks like a missing file")
    outer.__cause__ = inner
    assert status_of(outer) == (503, {"Retry-After": "2"})
    inner.__context__ = outer  # A circle must not hang it.
    assert list(causes(outer)) == [outer, inner]
    assert status_of(ValueError("no answer")) == (0, {})
