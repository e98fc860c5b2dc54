"""Judges what the samples of a case came to on the device, and folds them into the case's result."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from results.calls import merge
from results.events import OpCall
from results.vocabulary import Category, Outcome
from suites.compare import Comparison, ToleranceOf, compare
from suites.device import TestedDevice, Tolerance
from suites.opinfo.samples import Call
from suites.opinfo.traits import load_traits
from suites.result import CaseResult, qualified_name, shortened_traceback
from suites.values import EXACT

if TYPE_CHECKING:
    from suites.opinfo.subject import Subject

MESSAGE_CHARACTERS = 2000

SEVERITY = (
    Outcome.FAILED_NUMERIC,
    Outcome.FAILED_EXCEPTION,
    Outcome.OUT_OF_MEMORY,
    Outcome.UNSUPPORTED,
    Outcome.PASSED,
    Outcome.VACUOUS,
)
"""Which sample decides a case: a wrong answer given in silence is worse than any error."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What the CPU gave: the result, and the argument tensors it wrote into by their place."""

    value: Any
    written: dict[int, torch.Tensor]


@dataclasses.dataclass(slots=True, eq=False)
class Sample:
    """One call with what became of it.

    Attributes:
        call: the arguments as generated, never run themselves.
        expected: of the CPU in the same dtype.
        second: gives what :attr:`wide` is, computed where it is first asked for: most samples never need it.
        arguments, actual, error: what the device was given, and what it returned or raised.
        outcome, message, metrics: the judgement.
        uncompared: why its values were not compared, ``""`` if they were.
        raised: whether it raised, and rightly so.
        uninformative: whether the CPU gives nothing to compare with: no elements, or NaN throughout.
        calls: op calls that the device's recorder cannot see.
    """

    call: Call
    expected: Reference
    second: Callable[[], Reference | None] = lambda: None
    arguments: Call | None = None
    actual: Any = None
    error: Exception | None = None
    outcome: Outcome = Outcome.VACUOUS
    message: str = ""
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    uncompared: str = ""
    raised: bool = False
    uninformative: bool = False
    calls: tuple[OpCall, ...] = ()

    @property
    def wide(self) -> Reference | None:
        """Of the CPU in float64, or by another call that must give the same, where there is such."""
        return self.second()

    def attempt(self, action: Callable[[], Any]) -> Any:
        """Do a step on the device unless an earlier one raised; what it raises is the sample's error."""
        if self.error is not None:
            return None
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - what a device raises is the result, whatever it is
            self.error = error
            return None

    def conclude(self, compare_results: Callable[[], None], device: TestedDevice) -> None:
        """Compare, which fills in the outcome, or classify what was raised, by comparing too."""
        self.attempt(compare_results)
        if self.error is not None:
            self.outcome = device.classify(self.error)
            self.message = str(self.error)[:MESSAGE_CHARACTERS] or qualified_name(self.error)


def judge(
    sample: Sample,
    device: TestedDevice,
    op: str,
    dtype: str,
    *,
    empty_proves: bool = False,
    tolerance: ToleranceOf,
) -> None:
    """Compare a sample's results, or classify what was raised, the comparison included.

    Args:
        tolerance: bounds by dtype; the traits may widen them for the operator.
        empty_proves: whether a result without elements is a pass, by its shape and dtype.
    """
    sample.uncompared = load_traits().why_uncompared(op, sample.call.kwargs)
    bounds = _bounds(op, tolerance)
    sample.conclude(lambda: _compare(sample, device, bounds, dtype), device)
    # An empty result was compared by its shape and dtype, which is all it has.
    nothing = sample.outcome is Outcome.VACUOUS and not sample.metrics.get("compared")
    if empty_proves and nothing and sample.error is None:
        sample.outcome, sample.message = Outcome.PASSED, ""


OWN_ERRORS = 2.0
"""How often the CPU's own distance from float64 is allowed besides the bounds, as in ``torch._dynamo``."""


def _bounds(op: str, of_device: ToleranceOf) -> ToleranceOf:
    """The device's, or wider where the traits say why."""
    return lambda dtype: load_traits().tolerance(op, dtype, of_device(dtype))


def _compare(sample: Sample, device: TestedDevice, bounds: ToleranceOf, dtype: str) -> None:
    """Right is what agrees with the CPU in the same dtype, or with the second reference, or is as near to it.

    One alone would not do: in two bytes the CPU itself may be far from the truth, and float64 takes the other
    branch where rounding decides (``floor``, ``argmax``, ``bucketize``).
    """
    found = _against(sample, sample.expected, device, bounds, dtype)
    second = sample.wide if found.outcome is not Outcome.PASSED else None
    if second is not None and (wide := narrowed(second, sample.expected)) is not None:
        truth = _against(sample, wide, device, bounds, dtype)
        if found.outcome is truth.outcome is Outcome.FAILED_NUMERIC:
            truth = _within_own_errors(sample, wide, device, bounds)
        if truth.outcome is Outcome.PASSED:
            found = truth
    sample.outcome, sample.message, sample.metrics = found.outcome, found.message, dict(found.metrics)
    sample.uninformative = found.outcome is Outcome.VACUOUS


def _against(
    sample: Sample, reference: Reference, device: TestedDevice, bounds: ToleranceOf, dtype: str
) -> Comparison:
    assert sample.arguments is not None
    arguments = sample.arguments.tensors()
    pairs = [("output", sample.actual, reference.value)]
    for index, expected in reference.written.items():
        pairs.append((f"tensor argument {index}, written into,", arguments[index], expected))
    comparisons = [
        compare(
            actual,
            expected,
            bounds,
            name=name,
            device=device.name,
            values=not sample.uncompared,
            scalar_dtype=dtype,
        )
        for name, actual, expected in pairs
    ]
    worst = min(comparisons, key=lambda comparison: SEVERITY.index(comparison.outcome))
    return Comparison(worst.outcome, worst.message, _add([dict(found.metrics) for found in comparisons]))


def _within_own_errors(
    sample: Sample, wide: Reference, device: TestedDevice, bounds: ToleranceOf
) -> Comparison:
    """Tensor by tensor, against float64, with what the CPU's own rounding errors come to in each."""
    assert sample.arguments is not None
    arguments = sample.arguments.tensors()
    written = {place: arguments[place] for place in wide.written if place < len(arguments)}
    leaves, shape = tree_flatten((sample.actual, written))
    truths, true_shape = tree_flatten((wide.value, wide.written))
    own, own_shape = tree_flatten((sample.expected.value, sample.expected.written))
    if not shape == true_shape == own_shape:
        return Comparison(Outcome.FAILED_NUMERIC, "the structure differs", {})
    found = []
    for actual, truth, reference in zip(leaves, truths, own, strict=True):
        error = OWN_ERRORS * compare(reference, truth, lambda _: EXACT).metrics["max_abs_error"]
        found.append(compare(actual, truth, _plus(bounds, error), device=device.name))
    worst = min(found, key=lambda comparison: SEVERITY.index(comparison.outcome))
    return Comparison(worst.outcome, worst.message, _add([dict(each.metrics) for each in found]))


def _plus(bounds: ToleranceOf, error: float) -> ToleranceOf:
    def tolerance(dtype: str) -> Tolerance:
        bound = bounds(dtype)
        return Tolerance(bound.rtol, bound.atol + error)

    return tolerance


def narrowed(wide: Reference, like: Reference) -> Reference | None:
    """The reference in float64, rounded once to the dtypes of the other; ``None`` if it is another tree.

    It is where float64 is refused, say by an ``out=`` of another dtype, and no reference then.
    """
    leaves, tree = tree_flatten((wide.value, wide.written))
    others, other_tree = tree_flatten((like.value, like.written))
    if tree != other_tree:
        return None
    value, written = tree_unflatten(list(map(_rounded, leaves, others)), tree)
    return Reference(value, written)


def _rounded(wide: Any, like: Any) -> Any:
    if isinstance(wide, torch.Tensor) and isinstance(like, torch.Tensor):
        return wide.to(like.dtype)
    return wide


def _add(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Errors by their maximum, counts by their sum."""
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            known = total.get(name, 0.0)
            total[name] = max(known, value) if name.startswith("max_") else known + value
    return total


def not_run_here(why: str, category: Category, left_out: int = 0) -> CaseResult:
    """The result of a case that cannot be put to any device, with why."""
    return CaseResult(
        outcome=Outcome.SKIPPED_UPSTREAM,
        seconds=0.0,
        message=why,
        metrics={"samples": 0.0, "samples_left_out": float(left_out)},
        facts={"reason": why, "category": category.value},
    )


def fold(samples: Sequence[Sample], subject: Subject, left_out: int, calls: tuple[OpCall, ...]) -> CaseResult:
    """One result out of the samples': the worst decides, facts and metrics tell of all."""
    worst = min(samples, key=lambda sample: SEVERITY.index(sample.outcome))
    outcome, message = worst.outcome, worst.message
    counts = Counter(sample.outcome for sample in samples)
    if message and len(samples) > 1:
        first = samples.index(worst)
        message = f"{counts[outcome]} of {len(samples)} samples, first #{first}: {message}"
    counted = {"samples": float(len(samples)), "samples_left_out": float(left_out)}
    return CaseResult(
        outcome=outcome,
        seconds=0.0,
        exception=qualified_name(worst.error) if worst.error else "",
        message=message,
        traceback=shortened_traceback(worst.error) if worst.error else "",
        metrics=_add([sample.metrics for sample in samples]) | counted,
        facts=_facts(samples, subject, left_out, counts),
        calls=merge([*calls, *(call for sample in samples for call in sample.calls)]),
    )


def _facts(
    samples: Sequence[Sample], subject: Subject, left_out: int, counts: Counter[Outcome]
) -> dict[str, str]:
    facts = {
        "outcomes": ", ".join(f"{outcome}: {counts[outcome]}" for outcome in SEVERITY if counts[outcome])
    }
    uncompared = [sample.uncompared for sample in samples if sample.uncompared]
    if uncompared:
        facts["values"] = f"not compared in {len(uncompared)} of {len(samples)} samples: {uncompared[0]}"
    widened = load_traits().widened.get(subject.entry.name)
    if widened and subject.dtype in widened.bounds:
        facts["tolerance"] = f"wider than the device's: {widened.reason}"
    if left_out:
        facts["left_out"] = f"{left_out} samples that the CPU raises on"
    return facts
