"""The check of error inputs."""

from __future__ import annotations

import pytest

from results.vocabulary import Category, Outcome
from suites.opinfo import run_case
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_cases import case_of, on_itself


def test_the_cpu_agrees_with_itself_and_uses_its_own_words():
    passed = [result for result in on_itself("errors") if result.outcome is Outcome.PASSED]
    assert len(passed) > 15
    assert sum(result.metrics["messages"] for result in passed) > 50
    assert all(result.metrics["messages"] == result.metrics["messages_of_the_cpu"] for result in passed)


def test_a_device_that_computes_something_fails(on_device):
    result = run_case(on_device("gather", lambda right, x, *args: x, check="errors"), FakeDevice())
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "raised nothing; the CPU raises" in result.message


@pytest.mark.parametrize(
    ("error", "outcome", "said"),
    [
        (TypeError("no"), Outcome.FAILED_EXCEPTION, "raised TypeError: no; the CPU raises RuntimeError"),
        (RuntimeError("something"), Outcome.FAILED_EXCEPTION, "said 'something'; the list's pattern is"),
        (NotImplementedError("no kernel"), Outcome.UNSUPPORTED, "no kernel"),
        (MemoryError("full"), Outcome.OUT_OF_MEMORY, "full"),
    ],
)
def test_another_exception_fails(on_device, error, outcome, said):
    def raises(right, *args, **kwargs):
        raise error

    result = run_case(on_device("gather", raises, check="errors"), FakeDevice())
    assert result.outcome is outcome
    assert said in result.message


def test_other_words_that_match_the_pattern_are_counted(on_device):
    def says_more(right, *args, **kwargs):
        try:
            return right(*args, **kwargs)
        except RuntimeError as error:
            raise RuntimeError(f"on this device: {error}") from None

    result = run_case(on_device("gather", says_more, check="errors"), FakeDevice())
    assert result.outcome is Outcome.PASSED
    assert result.metrics["messages"] > 0
    assert result.metrics["messages_of_the_cpu"] == 0


@pytest.mark.parametrize(
    ("op", "dtype", "said"),
    [
        ("exp", "float32", "the list has no error inputs for it"),
        ("add", "float32", "the list has no error inputs for it"),  # it has a generator, which gives none
        ("gather", "int64", "error inputs have dtypes of their own: run as float32"),
    ],
)
def test_what_is_not_run_says_why(op, dtype, said):
    result = run_case(case_of(op, dtype, "errors"), FakeDevice())
    assert (result.outcome, result.message) == (Outcome.SKIPPED_UPSTREAM, said)
    assert result.facts["category"] == Category.OPINFO_ENTRY
