"""The stages of a model case: fetch, load, forward, backward, compile; each against the CPU.

One process runs one model. The reference is the same model, with the same weights and inputs, on
the CPU in float32; it runs twice first, and a model that disagrees with itself is not compared.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from harness import fetching
from harness.devices.base import Device
from harness.job import ModelSettings
from harness.model_sources import source_of
from harness.placement import check_placement
from harness.telemetry import attribute
from model_zoo.fetch import FetchError
from model_zoo.inputs import ModelInputs, to_device
from model_zoo.load import LoadError
from model_zoo.outputs import loss_of, named_tensors
from results import skip_category
from results.calls import merge
from results.events import OpCall
from results.plan import Case
from results.vocabulary import Category, Outcome
from suites.compare import Comparison, compare
from suites.compiled import NO_GRAPH, compile_metrics, finds_graph, start_compiling, unwrapped
from suites.device import Tolerance
from suites.result import CaseResult, qualified_name, shortened_traceback

Gradients = dict[str, Tensor]

GRADIENT_FLOOR = 1e-2
"""A gradient is held to rounding errors of this share of the model's largest one.

Some gradients are zero in exact arithmetic (softmax does not change when a constant is added to
all keys, so a key bias has none); what is computed for them is the rounding error of larger terms.
"""


@dataclasses.dataclass(slots=True)
class Finding:
    """What a stage that did not raise found."""

    outcome: Outcome = Outcome.PASSED
    message: str = ""
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    facts: dict[str, str] = dataclasses.field(default_factory=dict)
    calls: tuple[OpCall, ...] = ()

    def judge(self, comparison: Comparison) -> None:
        """Take over a comparison's outcome, message and metrics."""
        self.metrics.update(comparison.metrics)
        if self.outcome is Outcome.PASSED:
            self.outcome, self.message = comparison.outcome, comparison.message


class ReferenceFailedError(Exception):
    """The CPU reference raised, so the device cannot be judged."""


def run_stages(case: Case, device: Device, settings: ModelSettings) -> Generator[CaseResult, None, None]:
    """Run one stage each time the next result is asked for; stop asking after one that did not pass."""
    run = ModelRun(case, device, settings)
    for stage in (run.fetch, run.load, run.forward, run.backward, run.compile):
        yield _attempt(stage, device.classify)


def _attempt(stage: Callable[[], Finding], classify: Callable[[BaseException], Outcome]) -> CaseResult:
    started = time.perf_counter()
    try:
        found = stage()
    except Exception as error:  # noqa: BLE001 - whatever a model or a device raises is the result
        cause = unwrapped(error)
        outcome = _outcome_of(error, classify)
        skipped = outcome is Outcome.SKIPPED_UPSTREAM
        return CaseResult(
            outcome=outcome,
            seconds=time.perf_counter() - started,
            exception=qualified_name(cause),
            message=str(cause) or qualified_name(cause),
            traceback=shortened_traceback(error),
            facts=_facts_of(error) | ({skip_category.FACT: _category_of(error)} if skipped else {}),
        )
    return CaseResult(
        outcome=found.outcome,
        seconds=time.perf_counter() - started,
        message=found.message,
        metrics=found.metrics,
        facts=found.facts,
        calls=found.calls,
    )


def _outcome_of(error: Exception, classify: Callable[[BaseException], Outcome]) -> Outcome:
    if isinstance(error, FetchError | LoadError):
        return fetching.outcome_of(error)
    if isinstance(error, ReferenceFailedError):
        return Outcome.SKIPPED_UPSTREAM
    return classify(error)


def _category_of(error: Exception) -> str:
    """Why a model is skipped, in the words of the ledger."""
    if isinstance(error, FetchError | LoadError):
        return fetching.category_of(error)
    return Category.REFERENCE_FAILED


def _facts_of(error: Exception) -> dict[str, str]:
    return {fetching.REASON: error.reason.value} if isinstance(error, FetchError | LoadError) else {}


class ModelRun:
    """One model on one device; the methods are its stages and are called in order."""

    def __init__(self, case: Case, device: Device, settings: ModelSettings) -> None:
        self._source = source_of(case.spec, settings)
        self._device = device
        self._settings = settings

    def fetch(self) -> Finding:
        """Download the pinned revision, or find it in the cache; a model made by a file is here already."""
        return Finding(metrics={"bytes": float(self._source.fetch())})

    def load(self) -> Finding:
        """Load the weights on the CPU, copy them to the device, and check that all of them are there."""
        loaded = self._source.load()
        self._reference = loaded.model
        with self._device.record() as recorder:
            self._model = copy.deepcopy(self._reference).to(self._device.name)
            self._device.synchronize()
        found = Finding(calls=recorder.calls())
        found.metrics["parameters"] = float(sum(p.numel() for p in self._reference.parameters()))
        found.facts["architecture"] = loaded.architecture
        if loaded.missing_keys:
            found.facts["missing_keys"] = ", ".join(loaded.missing_keys)
        problem = check_placement(self._model, self._reference, self._device.name)
        if problem:
            found.outcome, found.message = Outcome.FAILED_NUMERIC, problem
        return found

    def forward(self) -> Finding:
        """Run the model with gradients on, and compare every tensor of its output."""
        self._inputs = self._source.inputs(self._reference)
        self._expected, self._expected_gradients, steady = self._run_reference()
        inputs = to_device(self._inputs, self._device.name)
        with self._device.record() as recorder:
            self._output = self._call(self._model, inputs)
            self._device.synchronize()
        with self._device.record(pair=True) as paired:
            self._paired_output = self._call(self._model, inputs)
        found = Finding(calls=attribute(recorder.calls(), paired.calls()))
        found.facts["modalities"] = ", ".join(self._inputs.modalities)
        self._require_device_calls(found)
        if not steady:
            found.outcome = Outcome.VACUOUS
            found.message = "the CPU reference disagrees with itself; nothing was compared"
        elif found.outcome is Outcome.PASSED:
            found.judge(self._compare_outputs(self._output))
        return found

    def backward(self) -> Finding:
        """Run backward from the loss and compare every parameter's gradient."""
        with self._device.record() as recorder:
            loss_of(self._output).backward()
            self._device.synchronize()
        gradients = _take_gradients(self._model)
        with self._device.record(pair=True) as paired:
            loss_of(self._paired_output).backward()
        _take_gradients(self._model)
        del self._output, self._paired_output
        found = Finding(calls=attribute(recorder.calls(), paired.calls()))
        found.metrics["parameters_with_gradient"] = _gradient_share(self._reference, gradients)
        self._require_device_calls(found)
        if found.outcome is Outcome.PASSED:
            found.judge(self._compare_gradients(gradients))
        return found

    def compile(self) -> Finding:
        """Compile the model, run forward and backward, and compare both; capture must be proven."""
        if not self._device.compile_backend:
            return Finding(Outcome.UNSUPPORTED, f"{self._device.name} has no backend for torch.compile")
        start_compiling(self._device)
        compiled = torch.compile(
            self._model, backend=self._device.compile_backend, **self._device.compile_options
        )
        with self._device.record() as recorder:
            output = self._call(compiled, to_device(self._inputs, self._device.name))
            loss_of(output).backward()
            self._device.synchronize()
        facts = self._device.compile_facts()
        found = Finding(calls=merge([*recorder.calls(), *facts.calls]))
        found.metrics |= compile_metrics(facts)
        found.judge(self._compare_outputs(output))
        found.judge(self._compare_gradients(self._without_zeros(_take_gradients(self._model))))
        if facts.graphs == 0 and found.outcome is Outcome.PASSED:
            self._say_no_graph(found)
        return found

    def _say_no_graph(self, found: Finding) -> None:
        """Nothing was proven; on the device's account only if Dynamo finds a graph on the CPU."""
        if finds_graph(lambda wrap: self._call(wrap(self._reference), self._inputs)):
            found.outcome, found.message = Outcome.VACUOUS, "no graph was captured and compiled"
        else:
            found.outcome, found.message = Outcome.SKIPPED_UPSTREAM, NO_GRAPH
            found.facts[skip_category.FACT] = Category.REFERENCE_FAILED

    def _without_zeros(self, gradients: Gradients) -> Gradients:
        """Leave out zeros where the reference has no gradient: compiled code gives one for the other."""
        return {
            name: tensor
            for name, tensor in gradients.items()
            if name in self._expected_gradients or bool(tensor.any())
        }

    def _run_reference(self) -> tuple[list[tuple[str, Tensor]], Gradients, bool]:
        """Run the CPU model forward and backward twice; also say whether the two runs agree."""
        runs: list[tuple[list[tuple[str, Tensor]], Gradients]] = []
        try:
            for _ in range(2):
                output = self._call(self._reference, self._inputs)
                loss_of(output).backward()
                runs.append((_detached(output), _take_gradients(self._reference)))
        except Exception as error:
            raise ReferenceFailedError(f"the CPU reference failed: {error}") from error
        (first, gradients), (second, gradients_again) = runs
        steady = _agree(dict(first), dict(second)) and _agree(gradients, gradients_again)
        return first, gradients, steady

    def _call(self, model: Callable[..., Any], inputs: ModelInputs) -> Any:
        torch.manual_seed(self._settings.seed)
        return model(**inputs.kwargs)

    def _require_device_calls(self, found: Finding) -> None:
        if not any(call.device_calls for call in found.calls):
            found.outcome, found.message = Outcome.VACUOUS, "no operator ran on the device"

    def _compare_outputs(self, output: Any) -> Comparison:
        return compare(
            dict(named_tensors(output)),
            dict(self._expected),
            self._device.model_tolerance,
            name="output",
            device=self._device.name,
        )

    def _compare_gradients(self, gradients: Gradients) -> Comparison:
        """Compare gradients, each scaled by the size that its rounding errors have.

        Gradients of one model span many orders of magnitude, so one absolute bound would pass the
        small ones unseen or fail the large ones for rounding.
        """
        largest = max((_largest(tensor) for tensor in self._expected_gradients.values()), default=0.0)
        scale = {
            name: max(_largest(tensor), largest * GRADIENT_FLOOR) or 1.0
            for name, tensor in self._expected_gradients.items()
        }
        return compare(
            {name: tensor / scale.get(name, 1.0) for name, tensor in gradients.items()},
            {name: tensor / scale[name] for name, tensor in self._expected_gradients.items()},
            self._gradient_tolerance,
            name="gradient",
            device=self._device.name,
        )

    def _gradient_tolerance(self, dtype: str) -> Tolerance:
        bounds = self._device.model_tolerance(dtype)
        return Tolerance(bounds.rtol, max(bounds.atol, bounds.rtol))


def _largest(tensor: Tensor) -> float:
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _detached(output: Any) -> list[tuple[str, Tensor]]:
    return [(name, tensor.detach().clone()) for name, tensor in named_tensors(output)]


def _take_gradients(model: nn.Module) -> Gradients:
    """Return the gradients a backward left, by parameter name, and clear them."""
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    return gradients


def _gradient_share(model: nn.Module, gradients: Gradients) -> float:
    total = sum(p.numel() for p in model.parameters())
    return sum(tensor.numel() for tensor in gradients.values()) / total if total else 0.0


def _agree(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    """Whether two runs gave tensors of the same names with the same values."""
    return first.keys() == second.keys() and all(_identical(first[name], second[name]) for name in first)


def _identical(one: Tensor, two: Tensor) -> bool:
    """The same numbers, and NaN in the same places."""
    if (one.dtype, one.shape) != (two.dtype, two.shape):
        return False
    return torch.allclose(one, two, rtol=0, atol=0, equal_nan=True)
