"""What the recorders of op calls have in common: they start, stop, and then tell what they saw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from results.events import OpCall


class CallRecorder(ABC):
    """A :class:`suites.device.Recorder` as a context manager."""

    def __init__(self) -> None:
        self._calls: tuple[OpCall, ...] = ()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls = self.stop(wait=kind is None)

    def calls(self) -> tuple[OpCall, ...]:
        """What was counted; empty until the context has been left."""
        return self._calls

    @abstractmethod
    def start(self) -> None:
        """Begin to count."""

    @abstractmethod
    def stop(self, *, wait: bool) -> tuple[OpCall, ...]:
        """Count no further, and give what was counted.

        Args:
            wait: for the device first; not where the body raised, for waiting would raise again.
        """
