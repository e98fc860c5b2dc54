"""What is known of one skip before it has a category: plain text, so that it can be logged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum


class Origin(StrEnum):
    """What made a test skip, or fail as expected."""

    RAISED = "raised"
    """An exception in a decorator, a set-up or a helper, before the test's own code was reached."""
    OWN_CODE = "own_code"
    """An exception in the test's own body, in its class's or file's set-up, or in the file itself."""
    DECORATOR = "decorator"
    """A static mark on the test or its class: ``unittest.skip*``, ``pytest.mark.skip*``."""
    PARAMETER = "parameter"
    """A mark that one value of a parametrization carries."""
    ENTRY = "entry"
    """A mark from an OpInfo, ModuleInfo or OptimizerInfo entry."""
    EXPECTED_FAILURE = "expected_failure"
    """``unittest.expectedFailure`` or ``pytest.mark.xfail`` on the test itself."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One skip.

    Attributes:
        reason: what it said.
        frames: ``module:qualified_name`` of the frames it passed through, the raising one first; those
            of pytest, pluggy and unittest are left out. Empty where nothing was raised.
        named: what tells skips apart that one wrapper raises for many decorators, e.g. the name of the
            condition that ``lazy_skip_if`` was given; ``""`` elsewhere.
        decorator: the decorator as the source has it, e.g. ``unittest.skipIf(not TEST_SCIPY, 'no SciPy')``.
        condition: names in the condition under which it skips, those left out that do not hold.
        location: ``file:line`` of what raised, or of the mark.
    """

    origin: Origin
    reason: str
    frames: tuple[str, ...] = ()
    named: str = ""
    decorator: str = ""
    condition: tuple[str, ...] = ()
    location: str = ""

    def facts(self) -> dict[str, str]:
        """The fields as facts of an event, empty ones left out."""
        found = {
            "origin": self.origin.value,
            "reason": self.reason,
            "frames": " < ".join(self.frames),
            "named": self.named,
            "decorator": self.decorator,
            "condition": " ".join(self.condition),
            "location": self.location,
        }
        return {name: value for name, value in found.items() if value}

    @classmethod
    def of(cls, facts: Mapping[str, str]) -> Evidence:
        """The skip that :meth:`facts` wrote."""
        return cls(
            origin=Origin(facts["origin"]),
            reason=facts.get("reason", ""),
            frames=tuple(filter(None, facts.get("frames", "").split(" < "))),
            named=facts.get("named", ""),
            decorator=facts.get("decorator", ""),
            condition=tuple(facts.get("condition", "").split()),
            location=facts.get("location", ""),
        )
