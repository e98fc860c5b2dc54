"""The frames that a skip passed through."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

_MACHINERY = ("_pytest", "pluggy", "unittest")
_IMPORTORSKIP = "_pytest.outcomes:importorskip"
_EXPECTED = "_pytest.unittest:TestCaseFunction.addExpectedFailure"
_KEPT = 8


class Passed:
    """The frames of an exception, the raising one first, without those of the test machinery.

    Attributes:
        frames: each with the line it had reached.
        sites: their ``module:qualified_name``.
        last_site: the raising frame, whatever it belongs to.
    """

    def __init__(self, error: BaseException) -> None:
        found = list(_unwound(error.__traceback__))[::-1]
        self.last_site = site(found[0][0]) if found else ""
        self.frames = [(frame, line) for frame, line in found if not _is_machinery(frame)][:_KEPT]
        self.sites = tuple(site(frame) for frame, _ in self.frames)

    def ran(self, codes: Iterable[CodeType]) -> bool:
        """Whether one of these functions was running."""
        wanted = set(codes)
        return any(frame.f_code in wanted for frame, _ in self.frames)

    def location(self, root: str) -> str:
        """``file:line`` of the raising frame, relative to ``root`` or to an import path."""
        for frame, line in self.frames:
            if site(frame) != _IMPORTORSKIP:
                return f"{portable(frame.f_code.co_filename, root)}:{line}"
        return ""


def site(frame: FrameType) -> str:
    """``module:qualified_name``."""
    return f"{frame.f_globals.get('__name__', '')}:{frame.f_code.co_qualname}"


def name_of(value: Any) -> str:
    """What an object that made a decorator is called: the function it was made in, or its class.

    A ``skipIf`` of PyTorch's whose condition is an attribute of the test class has that name after a
    colon: ``skipCUDAIf:no_magma``.
    """
    qualified = getattr(value, "__qualname__", None)
    if isinstance(qualified, str):
        return qualified.partition(".<locals>")[0]
    attribute = getattr(value, "dep", None)
    return type(value).__name__ + (f":{attribute}" if isinstance(attribute, str) else "")


def named_by(frames: Sequence[tuple[FrameType, int]], variables: Mapping[str, str]) -> str:
    """The decorator that the raising frame, a wrapper shared by many, stands for; ``""`` for any other."""
    frame = frames[0][0]
    variable = variables.get(site(frame))
    return name_of(frame.f_locals[variable]) if variable in frame.f_locals else ""


def expected_error(error: BaseException) -> BaseException | None:
    """What a ``unittest.expectedFailure`` test raised; pytest hands on only that it did."""
    for frame, _ in _unwound(error.__traceback__):
        if site(frame) == _EXPECTED:
            raised: BaseException | None = frame.f_locals["rawexcinfo"][1]
            return raised
    return None


@functools.lru_cache(maxsize=1024)
def portable(path: str, root: str) -> str:
    """A path without what is this machine's: relative to pytest's root or to an import path."""
    whole = Path(path)
    for base in (Path(root), *map(Path, sorted(filter(None, sys.path), key=len, reverse=True))):
        if whole.is_absolute() and whole.is_relative_to(base):
            return whole.relative_to(base).as_posix()
    return whole.as_posix()


def _unwound(trace: TracebackType | None) -> Iterable[tuple[FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _is_machinery(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in _MACHINERY and site(frame) != _IMPORTORSKIP
