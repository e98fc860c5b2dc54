"""The check of ``out=``."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from results.vocabulary import Outcome
from suites.device import TestedDevice
from suites.opinfo.checks.forms import FormsCheck, memory_of
from suites.opinfo.checks.forward import can_have_gaps, with_gaps
from suites.opinfo.entries import Entry
from suites.opinfo.judge import Sample
from suites.opinfo.samples import Call, place, seed_everything, spread
from suites.opinfo.subject import Subject
from suites.opinfo.traits import load_traits

SAMPLES = 4
"""Samples that are called in every form."""

FITTING = "out of the right shape"
GAPS = "out whose elements do not lie side by side"
EMPTY = "out without elements"
WRONG_SHAPE = "out of another shape"
WRONG_DTYPE = "out of another dtype"
ELSEWHERE = "out on the CPU"

_FIT = (FITTING, GAPS, WRONG_DTYPE)
_KEPT = "kept the strides of out"
_MEMORY = "memory of out"


class Out(FormsCheck):
    """Calls with ``out=``, after upstream's ``test_out`` and ``test_out_warning``."""

    name = "out"
    meaning = (
        "With out= the result is that very tensor, its values are the CPU's whatever it held, and its "
        "strides and what lies between its elements are kept; it is resized, with the CPU's warnings, or "
        "refused, with the CPU's type of exception, where shape or dtype differ; on the CPU it is refused."
    )
    wide = True
    derived = True
    empty_proves = True

    def lacks(self, entry: Entry, dtype: torch.dtype) -> str:
        """Many operators are composed of others and take no ``out=``."""
        if not entry.takes_out:
            return "it has no form with out="
        return load_traits().why_without_reference(self.name, entry.name)

    def calls(self, subject: Subject) -> Sequence[Call]:
        """A few samples, in every form each, with ``out`` among the keyword arguments."""
        return [
            dataclasses.replace(call, kwargs=call.kwargs | {"out": out}, form=form)
            for call in spread(subject.calls, SAMPLES)
            for form, out in _outs(call, subject)
        ]

    def act(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """The result and what else is to be compared, by name."""
        if call.form == ELSEWHERE:
            if device is None:
                raise RuntimeError("tensors are on two devices")
            there = _each(call.kwargs["out"], torch.Tensor.cpu)
            return subject.entry.run(dataclasses.replace(call, kwargs=call.kwargs | {"out": there}))
        outs = _as_tuple(call.kwargs["out"])
        strides = [out.stride() for out in outs]
        memory = [memory_of(out) for out in outs] if call.form == GAPS else []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = subject.entry.run(call)
        found = _as_tuple(result)
        same = len(found) == len(outs) and all(one is two for one, two in zip(found, outs, strict=True))
        kept = strides == [out.stride() for out in outs]
        return {
            "result": result,
            "returned out itself": str(same),
            "warned of resizing": _resize_warnings(caught),
            _KEPT: str(kept) if call.form in _FIT else "",
            _MEMORY: memory if kept else [],
        }

    def judge(self, sample: Sample, subject: Subject, device: TestedDevice) -> None:
        """For the CPU under test there is no other device; and no device need do what the CPU must not."""
        expected, actual = sample.expected.value, sample.actual
        if isinstance(expected, dict) and isinstance(actual, dict) and expected[_KEPT] == "False":
            actual |= {_KEPT: "False", _MEMORY: []}
        if sample.call.form == ELSEWHERE and device.name == "cpu":
            sample.outcome = Outcome.VACUOUS
            sample.error = None
        else:
            super().judge(sample, subject, device)


def _resize_warnings(caught: Sequence[warnings.WarningMessage]) -> str:
    """Categories of the warnings that speak of resizing; others may come once a process only."""
    return ", ".join(sorted({one.category.__name__ for one in caught if "resized" in str(one.message)}))


def _outs(call: Call, subject: Subject) -> Iterator[tuple[str, Any]]:
    """What to give as ``out``, in every form that makes sense for what the operator returns on the CPU.

    Some arguments allow no ``out`` (``as_tuple`` of ``nonzero``): none where even a fitting one is refused.
    """
    try:
        plain = _on_cpu(call, subject)
        found = _as_tuple(plain)
        if not found or not all(type(one) is torch.Tensor and one.layout == torch.strided for one in found):
            return
        _on_cpu(dataclasses.replace(call, kwargs=call.kwargs | {"out": _each(plain, _spoiled)}), subject)
    except Exception:  # noqa: BLE001 - what the reference cannot run proves nothing of a device
        return
    yield FITTING, _each(plain, _spoiled)
    if any(map(can_have_gaps, found)) and not load_traits().why_without_reference(GAPS, subject.entry.name):
        yield GAPS, _each(plain, lambda one: with_gaps(_spoiled(one)))
    if any(one.numel() for one in found):
        yield EMPTY, _each(plain, lambda one: one.new_empty(0))
    yield WRONG_SHAPE, _each(plain, lambda one: _filled(_other_shape(one), one.dtype))
    yield WRONG_DTYPE, _each(plain, lambda one: _filled(one.shape, _other_dtype(one.dtype)))
    if call.tensors() and not load_traits().why_without_reference(ELSEWHERE, subject.entry.name):
        yield ELSEWHERE, _each(plain, _spoiled)


def _on_cpu(call: Call, subject: Subject) -> Any:
    arguments = place(call, "cpu", subject.entry.name, load_traits())
    seed_everything(subject.seed)
    return subject.entry.run(arguments)


def _each(result: Any, make: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return make(result) if isinstance(result, torch.Tensor) else tuple(map(make, result))


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _spoiled(right: torch.Tensor) -> torch.Tensor:
    """Contiguous and of the same shape and dtype, and nowhere the right value."""
    if right.is_floating_point() or right.is_complex():
        return _filled(right.shape, right.dtype)
    if right.dtype == torch.bool:
        return right.logical_not().contiguous()
    flipped = right.flatten().clone().view(torch.uint8).bitwise_not()
    return flipped.view(right.dtype).view(right.shape)


def _filled(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    filler = float("nan") if dtype.is_floating_point or dtype.is_complex else 1
    return torch.full(tuple(shape), filler, dtype=dtype)


def _other_shape(tensor: torch.Tensor) -> tuple[int, ...]:
    return (*tensor.shape[:-1], tensor.shape[-1] + 1) if tensor.dim() else (2,)


def _other_dtype(dtype: torch.dtype) -> torch.dtype:
    """One that results cannot be cast to, where there is one."""
    if dtype.is_floating_point or dtype.is_complex:
        return torch.int64
    return torch.float32 if dtype == torch.bool else torch.bool
