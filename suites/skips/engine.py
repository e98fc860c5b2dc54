"""Gives a skip its category: by where it was raised, and only then by what it says."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping

from results.vocabulary import UNCATEGORISED, Category
from suites.skips.evidence import Evidence, Origin
from suites.skips.rules import Rule, Rules, load_rules

ALWAYS = re.compile(
    r"(unittest\.)?skip(\(|$)|pytest\.mark\.skip(\(|$)|skip_but_pass_in_sandcastle\(|[\w.]*skip[iI]f\((True|1),"
)
"""How a mark begins that skips whatever the machine."""

_BY_ORIGIN = {
    Origin.ENTRY: (Category.OPINFO_ENTRY, "a mark of the entry that the test was generated from"),
    Origin.PARAMETER: (Category.DISABLED_UPSTREAM, "a mark of one value of a parametrization"),
    Origin.EXPECTED_FAILURE: (Category.EXPECTED_FAILURE, "a mark of the test itself"),
    Origin.OWN_CODE: (Category.BODY, "raised by the test's own code"),
}
"""What is true of a skip whatever it says; the last resort of the rules below."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The category of a skip and what it was recognised by (``""`` if by nothing)."""

    category: str
    rule: str = ""


@functools.lru_cache(maxsize=4096)
def categorise(evidence: Evidence) -> Verdict:
    """Give a skip the one category that explains it, or ``uncategorised``.

    The first that knows it decides: the place it was raised at; the decorator's name; its condition;
    that the mark is unconditional; the whole text; what kind of mark it is.
    """
    rules = load_rules()
    for rule in (
        _by_place(evidence, rules),
        _by_decorator(evidence, rules),
        _by_condition(evidence, rules),
    ):
        if rule is not None:
            return Verdict(rule.category.value, rule.source)
    if evidence.origin is Origin.DECORATOR and ALWAYS.match(evidence.decorator):
        return Verdict(Category.DISABLED_UPSTREAM.value, "an unconditional mark")
    text = next((rule for rule in rules.texts if rule.matches(evidence.reason, "")), None)
    # A failure that is expected says what is broken, not why the test does not apply here.
    if text is not None and evidence.origin is not Origin.EXPECTED_FAILURE:
        return Verdict(text.category.value, f"text: {text.source}")
    if evidence.origin in _BY_ORIGIN:
        category, why = _BY_ORIGIN[evidence.origin]
        return Verdict(category.value, why)
    return Verdict(UNCATEGORISED)


def category_again(facts: Mapping[str, str]) -> str:
    """The category of a recorded skip by the present rules; what has no evidence keeps what it has."""
    if facts.get("origin") not in set(Origin):
        return facts.get("category", UNCATEGORISED)
    return categorise(Evidence.of(facts)).category


def _by_place(evidence: Evidence, rules: Rules) -> Rule | None:
    """The rule of the frame that raised; the ones around it only let it pass, as every decorator does."""
    for rule in rules.raised.get(evidence.frames[0], ()) if evidence.frames else ():
        if rule.matches(evidence.reason, evidence.named):
            return rule
    return None


def _by_decorator(evidence: Evidence, rules: Rules) -> Rule | None:
    called = evidence.decorator.partition("(")[0].rpartition(".")[2]
    return rules.decorators.get(evidence.named) or rules.decorators.get(called)


def _by_condition(evidence: Evidence, rules: Rules) -> Rule | None:
    """The rule of the names in the condition, if all that are known agree."""
    found = [rule for name in evidence.condition if (rule := _known(name, rules)) is not None]
    categories = {rule.category for rule in found}
    return found[0] if len(categories) == 1 else None


def _known(name: str, rules: Rules) -> Rule | None:
    return rules.conditions.get(name) or rules.conditions.get(name.rpartition(".")[2])
