"""What one run of a case, or of one stage of it, came to."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Mapping

from results.events import OpCall
from results.vocabulary import Outcome

_KEPT_FRAMES = 12


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The fields of :class:`results.events.Ended` that a runner fills, and the op calls.

    Attributes:
        seconds: wall-clock time.
        exception: qualified type name, ``""`` if none was raised.
        message: what a reader should see first.
    """

    outcome: Outcome
    seconds: float
    exception: str = ""
    message: str = ""
    traceback: str = ""
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    facts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    calls: tuple[OpCall, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the next stage may run."""
        return self.outcome is Outcome.PASSED


def qualified_name(error: BaseException) -> str:
    """``torch.OutOfMemoryError``, or the bare name of a built-in exception."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def shortened_traceback(error: BaseException) -> str:
    """The formatted traceback with its last frames only; the first ones are the harness's own."""
    return "".join(traceback.format_exception(error, limit=-_KEPT_FRAMES))
