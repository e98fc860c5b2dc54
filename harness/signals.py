"""Signals that ask a run to stop, remembered until it can be done in good order.

Raising from a handler would interrupt the run anywhere, in the middle of writing a record too.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Listens while it is entered; only a main thread can. A signal that is ignored (nohup) stays so.

    Attributes:
        reason: why to stop, ``""`` while nobody asked for it.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        keyboard = number == signal.SIGINT
        self.reason = (
            "interrupted from the keyboard" if keyboard else f"stopped by {signal.Signals(number).name}"
        )
