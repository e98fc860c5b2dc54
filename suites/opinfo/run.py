"""Runs one operator case on a device and judges it against the CPU."""

from __future__ import annotations

import dataclasses
import hashlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from results.events import OpCall
from results.plan import Case
from results.vocabulary import Outcome
from suites.compare import Comparison, compare
from suites.device import TestedDevice
from suites.opinfo.catalog import dtype_of, operators
from suites.opinfo.samples import Call, generate, place, seed_everything, tensors_of
from suites.opinfo.selection import load_traits
from suites.result import CaseResult, qualified_name, shortened_traceback

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


@dataclasses.dataclass(slots=True)
class _Sample:
    """One call with what became of it on the reference and on the device."""

    call: Call
    expected: Any = None
    written: dict[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    actual: Any = None
    arguments: Call | None = None
    uncompared: str = ""
    error: BaseException | None = None
    outcome: Outcome = Outcome.VACUOUS
    message: str = ""
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)


def run_case(case: Case, device: TestedDevice) -> CaseResult:
    """Run a case's samples on the device and compare each with the CPU, in the same dtype.

    The result is decided by the worst sample (`SEVERITY`). A case is ``vacuous`` if no op call
    was recorded on the device, if the CPU itself runs none of the samples, or if there was nothing
    to compare. Compared are the outputs and whatever arguments the operator wrote into.
    """
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = _run(case, device)
    return dataclasses.replace(result, seconds=time.perf_counter() - started)


def _run(case: Case, device: TestedDevice) -> CaseResult:
    if reason := case.spec.get("unsupported"):
        return CaseResult(outcome=Outcome.UNSUPPORTED, seconds=0.0, message=reason)
    name, seed = case.spec["op"], stable_seed(case.id)
    info = operators()[name]
    try:
        samples, left_out = _reference(info, name, case.spec["dtype"], seed)
    except Exception as error:  # noqa: BLE001 - sample generators run any code; that is not the device's fault
        return _nothing_to_run(f"op_db could not generate samples: {qualified_name(error)}: {error}", 0)
    if not samples:
        why = f"the CPU raised on all of {left_out} samples" if left_out else "op_db has no samples for it"
        return _nothing_to_run(why, left_out)
    calls = _on_device(info, name, samples, device, seed)
    for sample in samples:
        sample.uncompared = load_traits().why_uncompared(name, sample.call.kwargs)
        _judge(sample, device, case.spec["dtype"])
    return _fold(samples, left_out, calls)


def stable_seed(text: str) -> int:
    """A seed that is the same for the same text, in any process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _reference(info: Any, name: str, dtype: str, seed: int) -> tuple[list[_Sample], int]:
    """Run the samples on the CPU; those it raises on are left out and counted."""
    samples, left_out = [], 0
    for call in generate(info, dtype_of(dtype), seed):
        placed = place(call, "cpu", name, load_traits())
        before = [tensor._version for tensor in tensors_of(placed.args)]
        seed_everything(seed)
        try:
            expected = info.op(*placed.args, **placed.kwargs)
        except Exception:  # noqa: BLE001 - a sample the reference cannot run proves nothing about the device
            left_out += 1
            continue
        pairs = zip(tensors_of(placed.args), before, strict=True)
        written = {index: t for index, (t, version) in enumerate(pairs) if t._version != version}
        samples.append(_Sample(call, expected, written))
    return samples, left_out


def _on_device(
    info: Any, name: str, samples: Sequence[_Sample], device: TestedDevice, seed: int
) -> tuple[OpCall, ...]:
    """Run the samples on the device; only the operator itself is recorded, not the copying."""
    for sample in samples:
        sample.error = _caught(lambda: _move(sample, name, device))  # noqa: B023 - called at once
    with device.record(pair=True) as recorder:
        for sample in samples:
            if sample.error is None:
                seed_everything(seed)
                sample.error = _caught(lambda: _call(info.op, sample, device))  # noqa: B023
    return recorder.calls()


def _move(sample: _Sample, name: str, device: TestedDevice) -> None:
    sample.arguments = place(sample.call, device.name, name, load_traits())
    device.synchronize()


def _call(op: Callable[..., Any], sample: _Sample, device: TestedDevice) -> None:
    assert sample.arguments is not None
    sample.actual = op(*sample.arguments.args, **sample.arguments.kwargs)
    device.synchronize()  # an asynchronous device raises here, and so at the sample that caused it


def _caught(action: Callable[[], None]) -> Exception | None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - what a device raises is the result, whatever it is
        return error
    return None


def _judge(sample: _Sample, device: TestedDevice, dtype: str) -> None:
    if sample.error is None:
        sample.error = _caught(lambda: _compare(sample, device, dtype))
    if sample.error is not None:
        sample.outcome = device.classify(sample.error)
        sample.message = str(sample.error)[:MESSAGE_CHARACTERS] or qualified_name(sample.error)


def _compare(sample: _Sample, device: TestedDevice, dtype: str) -> None:
    def check(actual: Any, expected: Any, name: str) -> Comparison:
        values = not sample.uncompared
        return compare(
            actual,
            expected,
            device.tolerance,
            name=name,
            device=device.name,
            values=values,
            scalar_dtype=dtype,
        )

    assert sample.arguments is not None
    arguments = list(tensors_of(sample.arguments.args))
    comparisons = [check(sample.actual, sample.expected, "output")]
    for index, expected in sample.written.items():
        comparisons.append(check(arguments[index], expected, f"tensor argument {index}, written into,"))
    worst = min(comparisons, key=lambda comparison: SEVERITY.index(comparison.outcome))
    sample.outcome, sample.message = worst.outcome, worst.message
    sample.metrics = _add_metrics([dict(comparison.metrics) for comparison in comparisons])


def _add_metrics(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Errors by their maximum, counts by their sum."""
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            known = total.get(name, 0.0)
            total[name] = max(known, value) if name.startswith("max_") else known + value
    return total


def _nothing_to_run(why: str, left_out: int) -> CaseResult:
    return CaseResult(
        outcome=Outcome.VACUOUS,
        seconds=0.0,
        message=f"nothing was run on the device: {why}",
        metrics={"samples": 0.0, "samples_left_out": float(left_out)},
    )


def _fold(samples: Sequence[_Sample], left_out: int, calls: tuple[OpCall, ...]) -> CaseResult:
    worst = min(samples, key=lambda sample: SEVERITY.index(sample.outcome))
    outcome, message = worst.outcome, worst.message
    if outcome is Outcome.PASSED and not sum(call.device_calls + call.fallback_calls for call in calls):
        outcome, message = Outcome.VACUOUS, "no op call was recorded on the device"
    counts = Counter(sample.outcome for sample in samples)
    if worst.message and len(samples) > 1:
        first = samples.index(worst)
        message = f"{counts[worst.outcome]} of {len(samples)} samples, first #{first}: {message}"
    facts = {"outcomes": ", ".join(f"{kind}: {counts[kind]}" for kind in SEVERITY if counts[kind])}
    uncompared = [sample.uncompared for sample in samples if sample.uncompared]
    if uncompared:
        facts["values"] = f"not compared in {len(uncompared)} of {len(samples)} samples: {uncompared[0]}"
    if left_out:
        facts["left_out"] = f"{left_out} samples that the CPU raises on"
    metrics = _add_metrics([sample.metrics for sample in samples])
    return CaseResult(
        outcome=outcome,
        seconds=0.0,
        exception=qualified_name(worst.error) if worst.error else "",
        message=message,
        traceback=shortened_traceback(worst.error) if worst.error else "",
        metrics={**metrics, "samples": float(len(samples)), "samples_left_out": float(left_out)},
        facts=facts,
        calls=calls,
    )
