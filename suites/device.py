"""What a suite needs to know of the device it runs on; ``harness.devices`` provides it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

from results.events import OpCall
from results.vocabulary import Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class Tolerance:
    """How far two numbers may lie apart: ``|actual - expected| <= atol + rtol * |expected|``."""

    rtol: float
    atol: float


@dataclasses.dataclass(frozen=True, slots=True)
class CompileFacts:
    """What a compile backend says it did since the last reset; nothing where it cannot tell.

    Attributes:
        graphs: graphs captured and compiled.
        partitions: compiled pieces that graphs were split into because of operators that do not lower.
        eager_calls: calls in those graphs that run eagerly between the pieces.
        cache_hits: pieces that were taken from a cache instead of being compiled.
        executions: how often compiled graphs ran.
        seconds: spent in lowering and compiling.
        calls: ops that ran inside compiled graphs; they pass no dispatcher and are not counted there.
    """

    graphs: int = 0
    partitions: int = 0
    eager_calls: int = 0
    cache_hits: int = 0
    executions: int = 0
    seconds: float = 0.0
    calls: tuple[OpCall, ...] = ()


class Recorder(Protocol):
    """Counts the op calls between entering and leaving :meth:`TestedDevice.record`."""

    def calls(self) -> tuple[OpCall, ...]:
        """What was counted, complete once the context has been left."""


class TestedDevice(Protocol):
    """A device under test, as a suite sees it."""

    __test__: ClassVar[bool] = False  # pytest, this is not a test class

    name: str
    """Torch device type, e.g. ``neuron``."""

    compile_backend: str
    """Name for ``torch.compile``, ``""`` if the device has none."""

    @property
    def compile_options(self) -> Mapping[str, Any]:
        """Keyword arguments for ``torch.compile`` beside the backend."""

    def tolerance(self, dtype: str) -> Tolerance:
        """Bounds for comparing results of this dtype (``float32``, ``bfloat16``, …) with the CPU's."""

    def compiled_tolerance(self, dtype: str) -> Tolerance:
        """The same where the operator was compiled, and may be fused with others or decomposed."""

    def record(self, *, pair: bool = False) -> AbstractContextManager[Recorder]:
        """Record the op calls made inside the context.

        With ``pair`` each executed kernel is also paired with the op the program called, which
        costs some microseconds an op.
        """

    def synchronize(self) -> None:
        """Wait for the device; errors of earlier ops surface here."""

    def classify(self, error: BaseException) -> Outcome:
        """Say what an exception means: ``unsupported``, ``out_of_memory`` or ``failed_exception``."""

    def compile_facts(self, *, reset: bool = False) -> CompileFacts:
        """What the compile backend did in this process since the last ``reset``."""
