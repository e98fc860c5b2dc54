"""The call under ``torch.compile``, forward and backward."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from results.vocabulary import Outcome
from suites.compare import ToleranceOf
from suites.compiled import NO_GRAPH, compile_metrics, finds_graph, start_compiling, unwrapped
from suites.device import CompileFacts, TestedDevice
from suites.opinfo.checks.backward import gradients
from suites.opinfo.checks.base import Check
from suites.opinfo.checks.derivatives import inputs_of, outputs_of
from suites.opinfo.judge import Sample
from suites.opinfo.samples import Call, place, spread, with_elements
from suites.opinfo.subject import Subject
from suites.opinfo.traits import load_traits

NOT_TRACED = "Dynamo raises on it, on the CPU too"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """What a compiled call gave, and what was told of its compilation."""

    value: dict[str, Any]
    metrics: dict[str, float]
    facts: CompileFacts


class Compile(Check):
    """Against the eager CPU."""

    name = "compile"
    meaning = "Under torch.compile the result and the gradients agree with those of the eager CPU."
    most = 2
    wide = True
    empty_proves = True
    paired = False
    calls_prove = False  # a captured graph does; what runs inside one passes no dispatcher

    def calls(self, subject: Subject) -> Sequence[Call]:
        """With arguments that require a gradient where the dtype has one; with elements if there are such."""
        differentiable = subject.torch_dtype in subject.entry.gradient_dtypes
        calls = subject.differentiable_calls if differentiable else subject.calls
        return spread(with_elements(calls), self.most)

    def invoke(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """The result and, where it has a history, the gradients; eager on the CPU."""
        if device is None:
            return _value(subject, call, lambda function: function)
        if not device.compile_backend:
            raise NotImplementedError(f"{device.name} has no backend for torch.compile")
        start_compiling(device)

        def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
            made: Callable[..., Any] = torch.compile(
                function, backend=device.compile_backend, **device.compile_options
            )
            return made

        try:
            value = _value(subject, call, compiled)
            device.synchronize()
        except Exception as error:  # noqa: BLE001 - raised again, as what it is
            raise unwrapped(error) from None
        facts = device.compile_facts()
        return Compiled(value, compile_metrics(facts), facts)

    def tolerance(self, sample: Sample, device: TestedDevice) -> ToleranceOf:
        """A compiler may fuse, and so round elsewhere."""
        return device.compiled_tolerance

    def judge(self, sample: Sample, subject: Subject, device: TestedDevice) -> None:
        """Vacuous without a graph, else by comparing; what the compiler says becomes metrics and op calls."""
        found: Compiled | None = sample.actual
        if found is None:
            super().judge(sample, subject, device)
            _excuse_untraced(sample, subject)
            return
        sample.actual = _without_zeros(found.value, sample.expected.value)
        super().judge(sample, subject, device)
        if found.facts.graphs == 0 and sample.outcome is Outcome.PASSED:
            sample.outcome, sample.message = Outcome.VACUOUS, "no graph was captured and compiled"
            if not _captures(subject, sample.call):
                sample.message, sample.uninformative = NO_GRAPH, True
        sample.metrics |= found.metrics
        sample.calls = found.facts.calls


def _excuse_untraced(sample: Sample, subject: Subject) -> None:
    """Judge no device by an error that Dynamo itself raises, of the same type where nothing is compiled."""
    if sample.error is None:
        return
    try:
        _captures(subject, sample.call)
    except Exception as error:  # noqa: BLE001 - compared with what the device raised
        of_dynamo = unwrapped(error)
        if type(of_dynamo) is type(sample.error):
            sample.outcome, sample.uninformative = Outcome.VACUOUS, True
            sample.message = f"{NOT_TRACED}: {of_dynamo}"


def _captures(subject: Subject, call: Call) -> bool:
    placed = place(call, "cpu", subject.entry.name, load_traits())
    return finds_graph(lambda wrap: _value(subject, placed, wrap))


def _value(
    subject: Subject, call: Call, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> dict[str, Any]:
    result = subject.entry.run(call, wrap)
    inputs = inputs_of(call)
    if not inputs:
        return {"result": result}
    differentiable, outputs = outputs_of(call, result)
    return {
        "result": result,
        "differentiable_outputs": differentiable,
        "gradients": gradients(outputs, inputs, subject.seed),
    }


def _without_zeros(actual: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Zeros become ``None`` where the reference has no gradient; compiled code gives one for the other."""
    if "gradients" not in actual or "gradients" not in expected:
        return actual
    pairs = zip(actual["gradients"], expected["gradients"], strict=True)
    return actual | {"gradients": [_none_for_zeros(given, right) for given, right in pairs]}


def _none_for_zeros(given: torch.Tensor | None, right: torch.Tensor | None) -> torch.Tensor | None:
    if given is None or right is not None or given.any():
        return given
    return None
