"""The rules of ``rules.toml``, read once and indexed by what they match."""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from results.vocabulary import CATEGORIES, Category


class RuleError(ValueError):
    """A rule that cannot be used; says which one and what is wrong with it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        category: what a skip that it matches gets.
        source: where the fact was read.
        named: decorators it holds for, empty for any.
        text: pattern for the whole reason, ``None`` for any.
    """

    category: Category
    source: str
    named: frozenset[str] = frozenset()
    text: re.Pattern[str] | None = None

    def matches(self, reason: str, named: str) -> bool:
        """Whether it holds for a skip raised where the rule says."""
        if self.named and named not in self.named:
            return False
        return self.text is None or self.text.fullmatch(reason) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """All rules.

    Attributes:
        named_by: site of a shared wrapper → the variable that names the decorator.
        raised: site → rules in order.
        decorators, conditions: name → rule.
        texts: rules in order, each with a pattern.
    """

    named_by: Mapping[str, str]
    raised: Mapping[str, Sequence[Rule]]
    decorators: Mapping[str, Rule]
    conditions: Mapping[str, Rule]
    texts: Sequence[Rule]


@functools.cache
def load_rules() -> Rules:
    """The rules that come with the package."""
    return parse_rules(resources.files("suites.skips").joinpath("rules.toml").read_text(encoding="utf-8"))


def parse_rules(text: str) -> Rules:
    """Read rules.

    Raises:
        RuleError: a rule names no eligibility category, lacks its source, or repeats a name.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"the rules are not TOML: {error}") from error
    raised: dict[str, list[Rule]] = {}
    for item in content.get("raised", []):
        for function in item["functions"]:
            raised.setdefault(f"{item['module']}:{function}", []).append(_rule(item, item.get("text")))
    return Rules(
        named_by=content.get("named_by", {}),
        raised=raised,
        decorators=_by_name(content.get("decorator", [])),
        conditions=_by_name(content.get("condition", [])),
        texts=[_rule(item, pattern) for item in content.get("text", []) for pattern in item["patterns"]],
    )


def _rule(item: Mapping[str, Any], text: str | None) -> Rule:
    name, source = item.get("category"), item.get("source", "")
    if name not in set(Category) or not CATEGORIES[Category(name)].eligibility:
        raise RuleError(f"{name!r} is no category of skips that a suite makes itself")
    if not source:
        raise RuleError(f"a rule for {name} does not say where it was read")
    try:
        pattern = None if text is None else re.compile(text, re.DOTALL)
    except re.error as error:
        raise RuleError(f"the pattern {text!r} of a rule for {name} is not valid: {error}") from error
    return Rule(Category(name), source, frozenset(item.get("named", ())), pattern)


def _by_name(items: Sequence[Mapping[str, Any]]) -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for item in items:
        for name in item["names"]:
            if name in found:
                raise RuleError(f"{name!r} stands in two rules; a name has one category")
            found[name] = _rule(item, None)
    return found
