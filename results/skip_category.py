"""Which category a result is stored with, by what its recorder, its declaration or its plan says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from results.events import Ended
from results.plan import Case
from results.vocabulary import CATEGORIES, UNCATEGORISED, Category, Outcome

FACT = "category"
"""Of an event: the category of a skip, by whoever recorded it."""

NOT_GENERATED = "unsupported"
"""Of a case's spec: why upstream does not generate it for the device; then it is ``unsupported`` unrun."""


Categorise = Callable[[Mapping[str, str]], str]
"""Gives the facts of a skip a category anew, by rules that may be newer than the record."""


def skip_category(event: Ended, case: Case, again: Categorise | None = None) -> str:
    """The category that a result is stored with; ``""`` where nothing was skipped.

    A skip by the suite has the category its recorder gave it, one by the backend the declared one, and a
    case that upstream does not generate the one of its spec (``dtype`` unless it says otherwise).
    """
    if event.outcome is Outcome.SKIPPED_UPSTREAM:
        said = again(event.facts) if again is not None else event.facts.get(FACT, "")
        return _known(said, deliberate=False)
    if event.outcome is Outcome.SKIPPED_BACKEND:
        return _known(case.declared.category, deliberate=True)
    if event.outcome is Outcome.UNSUPPORTED and NOT_GENERATED in case.spec:
        said = event.facts.get(FACT) or case.spec.get(FACT) or Category.DTYPE.value
        return _known(str(said), deliberate=False)
    return ""


def _known(name: str, *, deliberate: bool) -> str:
    """The category if it is one that such a skip may have; a log is not taken on trust."""
    rule = CATEGORIES.get(Category(name)) if name in set(Category) else None
    if rule is None:
        return UNCATEGORISED
    return name if (rule.deliberate if deliberate else rule.eligibility) else UNCATEGORISED
