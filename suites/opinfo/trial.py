"""Runs one case: a check's calls on the CPU, then on the device."""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from results.events import OpCall
from results.plan import Case
from results.vocabulary import Category, Outcome
from suites.device import TestedDevice
from suites.opinfo.checks import CHECKS, Check
from suites.opinfo.checks.base import UnfitCallError
from suites.opinfo.judge import Reference, Sample, fold, not_run_here
from suites.opinfo.samples import Call, place, seed_everything
from suites.opinfo.subject import Subject, subject_of
from suites.opinfo.traits import load_traits
from suites.result import CaseResult, qualified_name


def run_case(case: Case, device: TestedDevice) -> CaseResult:
    """Run a case's calls on the device and compare each with the CPU.

    The worst call decides the result. A case is ``vacuous`` if no op call was recorded on the
    device, if the CPU itself runs none of the samples, or if there was nothing to compare.
    Compared are the outputs and whatever arguments the operator wrote into.
    """
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = _run(case, device)
    return dataclasses.replace(result, seconds=time.perf_counter() - started)


def _run(case: Case, device: TestedDevice) -> CaseResult:
    spec = case.spec
    if reason := spec.get("unsupported"):
        return CaseResult(outcome=Outcome.UNSUPPORTED, seconds=0.0, message=reason)
    if reason := spec.get("skipped"):
        return not_run_here(reason, Category.OPINFO_ENTRY)
    subject, check = subject_of(spec["database"], spec["op"], spec["dtype"]), CHECKS[spec["check"]]
    database = subject.entry.database
    try:
        calls = check.calls(subject)
    except Exception as error:  # noqa: BLE001 - generators run any code; that is not the device's fault
        why = f"{database} could not generate samples: {qualified_name(error)}: {error}"
        return not_run_here(why, Category.REFERENCE_FAILED)
    samples, unfit = _on_reference(check, subject, calls)
    left_out = len(calls) - len(samples) - len(unfit)
    if not samples and (check.derived or (unfit and not left_out)):
        none = unfit[0] if unfit else UnfitCallError()
        return not_run_here(none.reason, none.category, left_out)
    if not samples:
        return _without_samples(database, left_out)
    recorded = _on_device(check, subject, samples, device)
    for sample in samples:
        check.judge(sample, subject, device)
    result = fold(samples, subject, left_out, recorded)
    if result.outcome is Outcome.VACUOUS and all(sample.uninformative for sample in samples):
        category = Category.NEEDS_SAMPLES if check.derived else Category.REFERENCE_FAILED
        return not_run_here(f"nothing can be said of such calls: {result.message}", category)
    needs_calls = check.calls_prove and not all(sample.raised for sample in samples)
    if result.outcome is Outcome.PASSED and needs_calls and not _any_call(result.calls):
        return _without_calls(check, subject, samples, result)
    return result


def _without_samples(database: str, left_out: int) -> CaseResult:
    if not left_out:
        return not_run_here(f"{database} has no samples for it", Category.NEEDS_SAMPLES)
    return not_run_here(f"the CPU raised on all of {left_out} samples", Category.REFERENCE_FAILED, left_out)


def _any_call(recorded: Sequence[OpCall]) -> bool:
    return any(call.device_calls + call.fallback_calls for call in recorded)


def _without_calls(
    check: Check, subject: Subject, samples: Sequence[Sample], result: CaseResult
) -> CaseResult:
    """A pass without a recorded call: the device's, unless the same needs no call on the CPU either."""
    placed = [place(sample.call, "cpu", subject.entry.name, load_traits()) for sample in samples]
    with CountingMode() as counted:
        for call in placed:
            check.invoke(subject, call, None)
    if counted.calls:
        return dataclasses.replace(
            result, outcome=Outcome.VACUOUS, message="no op call was recorded on the device"
        )
    why = "it calls no op on any device: it returns its argument, or computes without tensors"
    return not_run_here(why, Category.OPINFO_ENTRY)


_NAMING = (torch.ops.aten.alias.default, torch.ops.aten.detach.default)
_SWAPPING = (torch.ops.aten.t.default, torch.ops.aten.transpose.int)


def _names_anew(func: Any, args: Sequence[Any]) -> bool:
    """Whether a call gives its argument back; so do those that swap dimensions of a tensor without any."""
    return func in _NAMING or (func in _SWAPPING and args[0].dim() == 0)


class CountingMode(TorchDispatchMode):
    """Counts the ops that reach the dispatcher's device keys, but those that only name a tensor anew."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Make the call."""
        self.calls += not _names_anew(func, args)
        return func(*args, **(kwargs or {}))


def _on_reference(
    check: Check, subject: Subject, calls: Sequence[Call]
) -> tuple[list[Sample], list[UnfitCallError]]:
    """Run the calls on the CPU; those it raises on are left out, and those unfit for the check told why."""
    samples: list[Sample] = []
    unfit: list[UnfitCallError] = []
    for call in calls:
        try:
            expected = _reference(check, subject, call, widen=False)
        except UnfitCallError as error:
            unfit.append(error)
            continue
        except Exception:  # noqa: BLE001 - what the reference cannot run proves nothing of a device
            continue
        second = functools.cache(functools.partial(_second, check, subject, call))
        samples.append(Sample(call, expected, second))
    return samples, unfit


def _second(check: Check, subject: Subject, call: Call) -> Reference | None:
    """What is right too: in float64, or of another call that must give the same."""
    if (same := check.same(call)) is None:
        return _wide(check, subject, call)
    try:
        return _reference(check, subject, same, widen=False)
    except Exception:  # noqa: BLE001 - then the first reference stands alone
        return None


def _wide(check: Check, subject: Subject, call: Call) -> Reference | None:
    """The reference in float64, ``None`` where there is none that is another."""
    if not check.wide or subject.dtype in ("float64", "complex128"):
        return None
    if not any(tensor.is_floating_point() or tensor.is_complex() for tensor in call.tensors()):
        return None
    try:
        return _reference(check, subject, call, widen=True)
    except Exception:  # noqa: BLE001 - some operators take no float64, or mix it with a dtype argument
        return None


def _reference(check: Check, subject: Subject, call: Call, *, widen: bool) -> Reference:
    arguments = place(call, "cpu", subject.entry.name, load_traits(), widen=widen)
    seed_everything(subject.seed)
    value = check.invoke(subject, arguments, None)
    return Reference(value, _written(call, arguments))


def _written(original: Call, used: Call) -> dict[int, torch.Tensor]:
    """The tensors that the call changed, by their place among the arguments' tensors.

    By their values: version counters miss the running statistics that batch_norm updates.
    """
    pairs = zip(original.tensors(), used.tensors(), strict=True)
    return {
        place: after
        for place, (before, after) in enumerate(pairs)
        if after.layout == torch.strided and not torch.equal(before.detach().to(after.dtype), after.detach())
    }


def _on_device(
    check: Check, subject: Subject, samples: Sequence[Sample], device: TestedDevice
) -> tuple[OpCall, ...]:
    """Run the samples on the device; only the check itself is recorded, not the copying."""
    for sample in samples:
        sample.arguments = sample.attempt(lambda: _move(sample.call, subject, device))  # noqa: B023 - done at once
    with device.record(pair=check.paired and subject.entry.paired) as recorder:
        for sample in samples:
            seed_everything(subject.seed, device.name)
            sample.actual = sample.attempt(lambda: _invoke(check, subject, sample, device))  # noqa: B023
    return recorder.calls()


def _move(call: Call, subject: Subject, device: TestedDevice) -> Call:
    arguments = place(call, device.name, subject.entry.name, load_traits())
    device.synchronize()
    return arguments


def _invoke(check: Check, subject: Subject, sample: Sample, device: TestedDevice) -> Any:
    assert sample.arguments is not None
    actual = check.invoke(subject, sample.arguments, device)
    device.synchronize()  # an asynchronous device raises here, and so at the sample that caused it
    return actual
