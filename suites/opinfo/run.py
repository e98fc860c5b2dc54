"""Runs one operator case: its samples on the CPU, then on the device."""

from __future__ import annotations

import dataclasses
import hashlib
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from results.events import OpCall
from results.plan import Case
from results.vocabulary import Outcome
from suites.device import TestedDevice
from suites.opinfo.catalog import dtype_of, operators
from suites.opinfo.judge import Sample, fold, judge, nothing_to_run
from suites.opinfo.samples import Call, generate, place, seed_everything
from suites.opinfo.traits import load_traits
from suites.result import CaseResult, qualified_name


def run_case(case: Case, device: TestedDevice) -> CaseResult:
    """Run a case's samples on the device and compare each with the CPU, in the same dtype.

    The worst sample decides the result. A case is ``vacuous`` if no op call was recorded on the
    device, if the CPU itself runs none of the samples, or if there was nothing to compare.
    Compared are the outputs and whatever arguments the operator wrote into.
    """
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = _run(case, device)
    return dataclasses.replace(result, seconds=time.perf_counter() - started)


def _run(case: Case, device: TestedDevice) -> CaseResult:
    if reason := case.spec.get("unsupported"):
        return CaseResult(outcome=Outcome.UNSUPPORTED, seconds=0.0, message=reason)
    op, dtype, seed = case.spec["op"], case.spec["dtype"], stable_seed(case.id)
    info = operators()[op]
    try:
        generated = generate(info, dtype_of(dtype), seed)
    except Exception as error:  # noqa: BLE001 - generators run any code; that is not the device's fault
        return nothing_to_run(f"op_db could not generate samples: {qualified_name(error)}: {error}")
    samples = _on_reference(info, op, generated, seed)
    left_out = len(generated) - len(samples)
    if not samples:
        why = f"the CPU raised on all of {left_out} samples" if left_out else "op_db has no samples for it"
        return nothing_to_run(why, left_out)
    calls = _on_device(info, op, samples, device, seed)
    for sample in samples:
        judge(sample, device, op, dtype)
    return fold(samples, op, dtype, left_out, calls)


def stable_seed(text: str) -> int:
    """A seed that is the same for the same text, in any process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _on_reference(info: Any, op: str, generated: Sequence[Call], seed: int) -> list[Sample]:
    """Run the calls on the CPU; those it raises on are left out."""
    samples = []
    for call in generated:
        arguments = place(call, "cpu", op, load_traits())
        seed_everything(seed)
        try:
            expected = info.op(*arguments.args, **arguments.kwargs)
        except Exception:  # noqa: BLE001 - what the reference cannot run proves nothing of a device
            continue
        samples.append(Sample(call, expected, _written(call, arguments)))
    return samples


def _written(original: Call, used: Call) -> dict[int, torch.Tensor]:
    """The tensors that the call changed, by their place among the arguments' tensors.

    By their values: version counters miss the running statistics that batch_norm updates.
    """
    pairs = zip(original.tensors(), used.tensors(), strict=True)
    return {
        place: after
        for place, (before, after) in enumerate(pairs)
        if after.layout == torch.strided and not torch.equal(before, after)
    }


def _on_device(
    info: Any, op: str, samples: Sequence[Sample], device: TestedDevice, seed: int
) -> tuple[OpCall, ...]:
    """Run the samples on the device; only the operator itself is recorded, not the copying."""
    for sample in samples:
        sample.arguments = sample.attempt(lambda: _move(sample.call, op, device))  # noqa: B023 - done at once
    with device.record(pair=True) as recorder:
        for sample in samples:
            seed_everything(seed, device.name)
            sample.actual = sample.attempt(lambda: _call(info, sample, device))  # noqa: B023
    return recorder.calls()


def _move(call: Call, op: str, device: TestedDevice) -> Call:
    arguments = place(call, device.name, op, load_traits())
    device.synchronize()
    return arguments


def _call(info: Any, sample: Sample, device: TestedDevice) -> Any:
    assert sample.arguments is not None
    actual = info.op(*sample.arguments.args, **sample.arguments.kwargs)
    device.synchronize()  # an asynchronous device raises here, and so at the sample that caused it
    return actual
