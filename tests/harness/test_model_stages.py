"""What an exception in a model's stage is charged to: the hub, the library, the reference or the device."""

from __future__ import annotations

import pytest

from harness.model_stages import Finding, ReferenceFailedError, _attempt, _outcome_of
from model_zoo.fetch import FetchError, FetchReason
from model_zoo.load import LoadError, LoadReason
from results.vocabulary import OUTCOMES, Outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (FetchError(FetchReason.RATE_LIMITED, "x"), Outcome.INFRA_ERROR),
        (FetchError(FetchReason.GATED, "x"), Outcome.SKIPPED_UPSTREAM),
        (FetchError(FetchReason.TOO_LARGE, "x"), Outcome.SKIPPED_UPSTREAM),
        (LoadError(LoadReason.NEEDS_REMOTE_CODE, "x"), Outcome.SKIPPED_UPSTREAM),
        (LoadError(LoadReason.CORRUPT_WEIGHTS, "x"), Outcome.INFRA_ERROR),
        (ReferenceFailedError("x"), Outcome.SKIPPED_UPSTREAM),
    ],
)
def test_what_is_not_the_device_does_not_count_against_it(error: Exception, outcome: Outcome) -> None:
    def never(_: BaseException) -> Outcome:
        raise AssertionError("the device was asked about an error that is not its own")

    assert _outcome_of(error, never) is outcome
    assert not OUTCOMES[outcome].counts


def test_anything_else_is_for_the_device_to_say() -> None:
    assert _outcome_of(ValueError("x"), lambda _: Outcome.FAILED_EXCEPTION) is Outcome.FAILED_EXCEPTION


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (FetchError(FetchReason.GATED, "gated"), "model_unavailable"),
        (LoadError(LoadReason.NEEDS_REMOTE_CODE, "its own code"), "model_unavailable"),
        (LoadError(LoadReason.NEEDS_PACKAGE, "needs timm"), "python_dependency"),
        (ReferenceFailedError("the CPU reference failed"), "reference_failed"),
        (FetchError(FetchReason.OFFLINE, "no network"), ""),
    ],
)
def test_a_skipped_model_has_its_category_and_a_failed_one_has_none(error: Exception, category: str) -> None:
    def stage() -> Finding:
        raise error

    result = _attempt(stage, lambda _: Outcome.FAILED_EXCEPTION)
    assert result.facts.get("category", "") == category
    assert (result.outcome is Outcome.SKIPPED_UPSTREAM) == bool(category)
