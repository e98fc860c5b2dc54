"""Devices under test for tests: the CPU under another hat, and ways to be wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from torch._dynamo.utils import counters

from results.events import OpCall
from results.vocabulary import Outcome
from suites.device import CompileFacts, Tolerance

TOLERANCES = {"float32": Tolerance(1.3e-6, 1e-5), "bfloat16": Tolerance(1.6e-2, 1e-5)}
ONE_CALL = (OpCall(called="aten::add", executed="aten::add", dtype="float32", device_calls=1),)


class Recorded:
    """What a fake device says it counted."""

    def __init__(self, calls: tuple[OpCall, ...]) -> None:
        self._calls = calls

    def calls(self) -> tuple[OpCall, ...]:
        return self._calls


class FakeDevice:
    """The CPU as a device under test; says that it counted ``calls``, whatever ran."""

    __test__ = False
    compile_backend = "aot_eager"
    compile_options: ClassVar = {}

    def __init__(self, name: str = "cpu", calls: tuple[OpCall, ...] = ONE_CALL) -> None:
        self.name = name
        self._calls = calls
        self.recordings = 0
        self.paired = False

    def tolerance(self, dtype: str) -> Tolerance:
        return TOLERANCES.get(dtype, Tolerance(0.0, 0.0))

    @contextmanager
    def record(self, *, pair: bool = False) -> Iterator[Recorded]:
        self.recordings += 1
        self.paired = pair
        yield Recorded(self._calls)

    def compiled_tolerance(self, dtype: str) -> Tolerance:
        return self.tolerance(dtype)

    def compile_facts(self, *, reset: bool = False) -> CompileFacts:
        return CompileFacts(graphs=counters["stats"]["unique_graphs"])

    def synchronize(self) -> None:
        pass

    def classify(self, error: BaseException) -> Outcome:
        if isinstance(error, MemoryError):
            return Outcome.OUT_OF_MEMORY
        return Outcome.UNSUPPORTED if isinstance(error, NotImplementedError) else Outcome.FAILED_EXCEPTION
