"""What a suite needs to know of the device it runs on; ``harness.devices`` provides it."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

from results.events import OpCall
from results.vocabulary import Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class Tolerance:
    """How far two numbers may lie apart: ``|actual - expected| <= atol + rtol * |expected|``."""

    rtol: float
    atol: float


class Recorder(Protocol):
    """Counts the op calls between entering and leaving :meth:`TestedDevice.record`."""

    def calls(self) -> tuple[OpCall, ...]:
        """What was counted, complete once the context has been left."""


class TestedDevice(Protocol):
    """A device under test, as a suite sees it."""

    __test__: ClassVar[bool] = False  # pytest, this is not a test class

    name: str
    """Torch device type, e.g. ``neuron``."""

    def tolerance(self, dtype: str) -> Tolerance:
        """Bounds for comparing results of this dtype (``float32``, ``bfloat16``, …) with the CPU's."""

    def record(self, *, pair: bool = False) -> AbstractContextManager[Recorder]:
        """Record the op calls made inside the context.

        With ``pair`` each executed kernel is also paired with the op the program called, which
        costs some microseconds an op.
        """

    def synchronize(self) -> None:
        """Wait for the device; errors of earlier ops surface here."""

    def classify(self, error: BaseException) -> Outcome:
        """Say what an exception means: ``unsupported``, ``out_of_memory`` or ``failed_exception``."""
