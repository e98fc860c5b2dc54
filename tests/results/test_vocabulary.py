"""The vocabulary is one complete table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.vocabulary import (
    CATEGORIES,
    MODEL_STAGES,
    OUTCOMES,
    SKIP_SOURCES,
    UNCATEGORISED,
    Category,
    Expectation,
    Outcome,
    SkipSource,
    Verdict,
    case_outcome,
    verdict,
)


def test_each_word_is_explained() -> None:
    assert list(OUTCOMES) == list(Outcome)
    assert list(CATEGORIES) == list(Category)
    assert list(SKIP_SOURCES) == list(SkipSource)
    assert all(rule.meaning.endswith(".") for rule in OUTCOMES.values())
    assert all(rule.meaning.endswith(".") for rule in CATEGORIES.values())


def test_each_category_is_of_use_and_each_meaning_its_own() -> None:
    assert all(rule.deliberate or rule.eligibility for rule in CATEGORIES.values())
    assert len({rule.meaning for rule in CATEGORIES.values()}) == len(Category)
    assert UNCATEGORISED not in set(Category)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome.PASSED, ("ok", "unexpected_pass", "unexpected_pass", "ok")),
        (Outcome.FAILED_NUMERIC, ("regression", "known_failure", "known_failure", "flake")),
        (Outcome.VACUOUS, ("regression", "known_failure", "known_failure", "flake")),
        (Outcome.CRASHED, ("regression", "known_failure", "known_failure", "flake")),
        (Outcome.UNSUPPORTED, ("ok",) * 4),
        (Outcome.SKIPPED_UPSTREAM, ("ok",) * 4),
        (Outcome.SKIPPED_BACKEND, ("ok",) * 4),
        (Outcome.INFRA_ERROR, ("incomplete",) * 4),
        (Outcome.NOT_RUN, ("incomplete",) * 4),
    ],
)
def test_verdict(outcome: Outcome, expected: tuple[str, ...]) -> None:
    assert tuple(verdict(outcome, expectation) for expectation in Expectation) == expected


@pytest.mark.parametrize("expectation", Expectation)
def test_a_failure_that_is_not_the_declared_one_is_a_regression(expectation: Expectation) -> None:
    for outcome, rule in OUTCOMES.items():
        plain, otherwise = verdict(outcome, expectation), verdict(outcome, expectation, as_declared=False)
        assert otherwise is (Verdict.REGRESSION if rule.gates else plain)


def test_what_gates_is_never_ok() -> None:
    for outcome, rule in OUTCOMES.items():
        if rule.gates:
            assert verdict(outcome, Expectation.PASS) is Verdict.REGRESSION


@given(st.dictionaries(st.sampled_from(MODEL_STAGES), st.sampled_from(Outcome)))
def test_case_outcome_is_the_first_stage_that_did_not_pass(stages: dict) -> None:
    outcome, decided_by = case_outcome(stages, MODEL_STAGES)
    before = MODEL_STAGES[: MODEL_STAGES.index(decided_by)]
    assert all(stages[stage] is Outcome.PASSED for stage in before)
    assert outcome is stages.get(decided_by, Outcome.NOT_RUN)
    assert outcome is not Outcome.PASSED or decided_by is MODEL_STAGES[-1]
