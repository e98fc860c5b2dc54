"""What an exception in a model's stage is charged to: the hub, the library, the reference or the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.devices.cpu import CpuDevice
from harness.job import ModelSettings
from harness.local import _outcome_of as _outcome_of_end
from harness.model_stages import Finding, ModelRun, ReferenceFailedError, _attempt, _identical, _outcome_of
from model_zoo.fetch import FetchError, FetchReason
from model_zoo.inputs import ModelInputs
from model_zoo.load import LoadError, LoadReason
from results.plan import Case
from results.vocabulary import OUTCOMES, CaseKind, Fate, Outcome, Stage


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


class Fickle(torch.nn.Module):
    """Takes another layer each time, so that another parameter has a gradient; may give one tensor more."""

    def __init__(self, *, more: bool) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3, bias=False) for _ in range(2)])
        torch.nn.init.eye_(self.layers[0].weight)
        torch.nn.init.eye_(self.layers[1].weight)
        self.calls = 0
        self.more = more

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls += 1
        outputs = {"logits": self.layers[self.calls % 2](x)}
        return outputs | ({"more": x} if self.more and self.calls == 2 else {})


@pytest.mark.parametrize("more", [False, True])
def test_a_reference_that_gives_other_tensors_the_second_time_disagrees_with_itself(more: bool) -> None:
    settings = ModelSettings(endpoint="", cache=Path(), max_bytes=0, seed=0)
    run: Any = ModelRun(Case(id="model::o/m@1", kind=CaseKind.MODEL), CpuDevice(), settings)
    run._reference, run._inputs = (
        Fickle(more=more),
        ModelInputs({"x": torch.ones(2, 3)}, ("text",), has_labels=False),
    )
    output, gradients, steady = run._run_reference()
    assert not steady
    assert dict(output)["logits"].tolist() == [[1.0] * 3] * 2
    assert list(gradients) == ["layers.1.weight"]


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


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ([float("nan"), 1.0], [float("nan"), 1.0], True),
        ([float("nan"), 1.0], [0.0, 1.0], False),
        ([float("inf")], [torch.finfo(torch.float32).max], False),
        ([True, False], [True, False], True),
        ([1, 2], [1.0, 2.0], False),
        ([1.0], [1.0, 1.0], False),
    ],
)
def test_two_runs_agree_in_numbers_and_in_where_there_are_none(one: Any, two: Any, same: bool) -> None:
    assert _identical(torch.tensor(one), torch.tensor(two)) == same


@pytest.mark.parametrize(
    ("fate", "stage", "outcome"),
    [
        (Fate.KILLED_AT_DEADLINE, Stage.FETCH, Outcome.INFRA_ERROR),
        (Fate.SILENT, Stage.FETCH, Outcome.INFRA_ERROR),
        (Fate.KILLED_AT_DEADLINE, Stage.LOAD, Outcome.TIMED_OUT),
        (Fate.MEMORY_LIMIT, Stage.FETCH, Outcome.OUT_OF_MEMORY),
        (Fate.SIGNALLED, Stage.FETCH, Outcome.CRASHED),
    ],
)
def test_a_hub_that_takes_too_long_is_not_charged_to_the_device(
    fate: Fate, stage: Stage, outcome: Outcome
) -> None:
    assert _outcome_of_end(fate, stage) is outcome
