"""Failures on demand, so that a client's behaviour under a failing Hub can be tested."""

from __future__ import annotations

import dataclasses
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ALWAYS = -1


class FaultError(ValueError):
    """A description of a fault that cannot be understood; says what is wrong with it."""


@dataclass
class Fault:
    """What to do to the next ``times`` requests whose method and path match.

    Attributes:
        path: substring of the request's path, ``""`` for all.
        status: HTTP status to answer with; 0 answers normally.
        times: how many requests are hit; :data:`ALWAYS` for every one.
        headers: sent with that status, e.g. ``{"Retry-After": "1"}``.
        method: ``"GET"``, ``"HEAD"`` or ``""`` for both.
        cut_after: close the connection after that many bytes of a file's body; -1 for never.
        code: the Hub's ``X-Error-Code`` of that status.
        body: sent instead of the answer's own, with ``status`` or 200.
        delay: seconds before anything is sent.
        rate: bytes of a file's body a second; 0 is as fast as it goes.
        etag: sent as the file's, whatever it is.
        garble: send a file's body with every bit turned over, at its right length.
        drop: close the connection without an answer.
        endless: name a next page after every page of a listing.
        moved_to: id that the model has now; answered with a redirect to it.
    """

    path: str = ""
    status: int = 0
    times: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = ""
    cut_after: int = -1
    code: str = ""
    body: bytes | None = None
    delay: float = 0.0
    rate: int = 0
    etag: str = ""
    garble: bool = False
    drop: bool = False
    endless: bool = False
    moved_to: str = ""


KINDS: Mapping[str, Mapping[str, Any]] = {
    "rate-limit": {"status": 429, "headers": {"Retry-After": "1"}},
    "unavailable": {"status": 503},
    "error": {"status": 500},
    "slow": {"delay": 1.0},
    "truncate": {"path": "/resolve/", "method": "GET", "cut_after": 1},
    "garble": {"path": "/resolve/", "method": "GET", "garble": True},
    "wrong-etag": {"path": "/resolve/", "etag": "0" * 40},
    "drop": {"drop": True},
    "gated": {"path": "/resolve/", "status": 403, "code": "GatedRepo"},
    "private": {"status": 404, "code": "RepoNotFound"},
    "renamed": {"moved_to": ""},
    "deleted-revision": {"status": 404, "code": "RevisionNotFound"},
    "endless-listing": {"endless": True},
}
"""What each kind of fault is, before its options."""

_NUMBERS = {"times": int, "status": int, "delay": float, "rate": int, "cut-after": int}
_TEXTS = ("path", "method", "etag", "moved-to", "retry-after")


def named_fault(kind: str, options: Mapping[str, Any] | None = None) -> Fault:
    """The fault of a kind; see :data:`KINDS`.

    Args:
        options: ``path``, ``method``, ``times``, ``status``, ``delay``, ``rate``, ``cut-after``, ``etag``,
            ``moved-to`` and ``retry-after``, as text or as values.

    Raises:
        FaultError: no such kind or option, or a value that does not fit.
    """
    if kind not in KINDS:
        raise FaultError(f"there is no fault {kind!r}; there are {', '.join(sorted(KINDS))}")
    values: dict[str, Any] = dict(KINDS[kind])
    for name, value in (options or {}).items():
        _set(values, name.replace("_", "-"), value)
    if kind == "renamed" and not values["moved_to"]:
        raise FaultError("fault 'renamed' needs moved-to=ORG/NAME")
    return Fault(**values)


def _set(values: dict[str, Any], name: str, value: Any) -> None:
    if name not in _NUMBERS and name not in _TEXTS:
        raise FaultError(f"a fault has no option {name!r}; it has {', '.join(sorted([*_NUMBERS, *_TEXTS]))}")
    if name == "retry-after":
        values["headers"] = {"Retry-After": str(value)}
        return
    try:
        values[name.replace("-", "_")] = _NUMBERS.get(name, str)(value)
    except (TypeError, ValueError):
        raise FaultError(f"{name} of a fault is a number, not {value!r}") from None


def parse_fault(text: str) -> Fault:
    """The fault that ``KIND[,OPTION=VALUE...]`` describes, e.g. ``rate-limit,path=/tree/,times=2``.

    Raises:
        FaultError: it cannot be understood.
    """
    kind, *rest = [part.strip() for part in text.split(",")]
    options: dict[str, str] = {}
    for part in rest:
        name, equals, value = part.partition("=")
        if not equals:
            raise FaultError(f"{part!r} in fault {text!r} is not OPTION=VALUE")
        options[name] = value
    return named_fault(kind, options)


def read_faults(path: Path) -> list[Fault]:
    """The faults of a TOML file: one table ``[[fault]]`` each, with ``kind`` and options.

    Raises:
        FaultError: it cannot be read or understood.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("fault", [])
        described = [dict(table) for table in tables]
    except (OSError, TypeError, ValueError) as error:
        raise FaultError(f"{path} holds no tables [[fault]]: {error}") from error
    found = []
    for table in described:
        try:
            found.append(named_fault(str(table.pop("kind", "")), table))
        except FaultError as error:
            raise FaultError(f"{path}: {error}") from None
    return found


class Faults:
    """The faults a server still has to commit; shared by its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Arm one more fault."""
        with self._lock:
            self._pending.append(dataclasses.replace(fault))

    def clear(self) -> None:
        """Disarm them all."""
        with self._lock:
            self._pending.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault for this request, if one is armed; counts it as used."""
        with self._lock:
            for fault in self._pending:
                if fault.times != 0 and fault.path in path and fault.method in ("", method):
                    if fault.times > 0:
                        fault.times -= 1
                    return fault
        return None
