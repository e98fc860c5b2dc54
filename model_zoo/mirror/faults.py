"""Failures on demand, so that a client's behaviour under a failing Hub can be tested."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Fault:
    """What to do to the next ``times`` requests whose method and path match.

    Attributes:
        path: substring of the request's path, ``""`` for all.
        status: HTTP status to answer with; 0 answers normally.
        times: how many requests are hit.
        headers: sent with that status, e.g. ``{"Retry-After": "1"}``.
        method: ``"GET"``, ``"HEAD"`` or ``""`` for both.
        cut_after: close the connection after that many bytes of a file's body; -1 for never.
    """

    path: str = ""
    status: int = 0
    times: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = ""
    cut_after: int = -1


class Faults:
    """The faults a server still has to commit; shared by its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Arm one more fault."""
        with self._lock:
            self._pending.append(fault)

    def take(self, method: str, path: str) -> Fault | None:
        """The fault for this request, if one is armed; counts it as used."""
        with self._lock:
            for fault in self._pending:
                if fault.times > 0 and fault.path in path and fault.method in ("", method):
                    fault.times -= 1
                    return fault
        return None
