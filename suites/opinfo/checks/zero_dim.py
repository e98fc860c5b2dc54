"""The check of tensors without dimensions, and of those on the CPU among the device's."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from suites.device import TestedDevice
from suites.opinfo.checks.base import Check
from suites.opinfo.entries import Entry
from suites.opinfo.judge import Sample
from suites.opinfo.samples import Call, map_tensors, seed_everything, spread, tensors_in
from suites.opinfo.subject import Subject
from suites.opinfo.traits import load_traits

_EACH = 7
"""Calls of each of three kinds."""

MIXED = "tensor without dimensions on the CPU"


class ZeroDim(Check):
    """Calls with 0-dim tensors.

    PyTorch lets one on the CPU take part in operators on any device. That holds for element-wise operators
    of two tensors; of others some refuse it on every device, so it is tried where the only operators that
    take the tensor are of two tensors and tagged ``pointwise``.
    """

    name = "zero_dim"
    meaning = (
        "With tensors that have no dimension the results agree; and with one of those on the CPU among the "
        "device's, where an element-wise operator of two tensors takes it."
    )
    most = 3 * _EACH
    wide = True
    derived = True
    empty_proves = True  # nonzero of a zero

    def lacks(self, entry: Entry, dtype: torch.dtype) -> str:
        """For some the CPU is no reference."""
        return load_traits().why_without_reference(self.name, entry.name)

    def calls(self, subject: Subject) -> Sequence[Call]:
        """Samples that have such tensors, samples made so, and samples with one such tensor on the CPU."""
        have = [call for call in subject.calls if any(not one.dim() for one in call.tensors())]
        plain = [call for call in subject.calls if _can_be_made(call)]
        made = [_scalars(call) for call in plain if any(tensor.dim() for tensor in call.tensors())]
        mixed = [made for call in plain for made in _mixed(call, subject)]
        return [*spread(have, _EACH), *spread(made, _EACH), *spread(mixed, _EACH)]

    def invoke(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """With the tensor that ``call.note`` counts to brought back to the CPU."""
        if device is not None and call.note is not None:
            call = _replaced(call, call.note, lambda tensor: tensor.cpu())
        return subject.entry.run(call)

    def judge(self, sample: Sample, subject: Subject, device: TestedDevice) -> None:
        """Says which kind of call it was."""
        super().judge(sample, subject, device)
        if sample.message and sample.call.form:
            sample.message = f"{sample.call.form}: {sample.message}"


def _can_be_made(call: Call) -> bool:
    tensors = call.tensors()
    return bool(tensors) and all(
        type(one) is torch.Tensor and one.layout == torch.strided and one.numel() for one in tensors
    )


def _scalar(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.flatten()[0].clone()


def _scalars(call: Call) -> Call:
    return dataclasses.replace(map_tensors(_scalar, call), form="all tensors without dimensions")


def _mixed(call: Call, subject: Subject) -> Iterator[Call]:
    tensors = call.tensors()
    refused = load_traits().why_without_reference(MIXED, subject.entry.name)
    for place in range(len(tensors)) if len(tensors) > 1 and not refused else ():
        made = _replaced(call, place, _scalar)
        if _may_mix(made, place, subject):
            yield dataclasses.replace(made, form=f"{MIXED}, argument {place}", note=place)


def _replaced(call: Call, place: int, function: Any) -> Call:
    """The call with one of its tensors replaced by what a function makes of it."""
    count = itertools.count()
    return map_tensors(lambda tensor: function(tensor) if next(count) == place else tensor, call)


def _may_mix(call: Call, place: int, subject: Subject) -> bool:
    copy = map_tensors(torch.clone, call)
    marked = copy.tensors()[place]
    seed_everything(subject.seed)
    with _Consumers(marked) as mode:
        try:
            subject.entry.run(copy)
        except Exception:  # noqa: BLE001 - what the CPU does not run is not tried on the device
            return False
    return bool(mode.found) and all(map(_is_binary, mode.found))


def _is_binary(func: torch._ops.OpOverload) -> bool:
    """Element-wise, and of two tensors; with three, whether one may be elsewhere is up to the operator."""
    tensors = [one for one in func._schema.arguments if isinstance(one.type, torch.TensorType)]
    return torch.Tag.pointwise in func.tags and len(tensors) == 2 and not func._schema.is_mutable


class _Consumers(TorchDispatchMode):
    """Notes which operators take a tensor."""

    def __init__(self, marked: torch.Tensor) -> None:
        super().__init__()
        self._marked = marked
        self.found: list[torch._ops.OpOverload] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(tensor is self._marked for tensor in tensors_in((args, kwargs or {}))):
            self.found.append(func)
        return func(*args, **(kwargs or {}))
