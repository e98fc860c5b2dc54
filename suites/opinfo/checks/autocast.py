"""The check of ``torch.autocast``."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from results.vocabulary import Outcome
from suites.compare import ToleranceOf, compare
from suites.device import TestedDevice, Tolerance
from suites.opinfo.checks import as_cuda
from suites.opinfo.checks.forms import FormsCheck, Raised
from suites.opinfo.entries import Entry
from suites.opinfo.judge import Sample, narrowed
from suites.opinfo.samples import Call, map_tensors, spread
from suites.opinfo.subject import Subject
from suites.values import dtype_name

SAMPLES = 5
"""Samples that are called in every form."""

DTYPES = (torch.bfloat16, torch.float16)


class Autocast(FormsCheck):
    """Calls under autocast; ``note`` is the dtype that it casts to.

    What dtypes come out, and in which the operators inside compute, is what the installed torch does for
    CUDA (https://docs.pytorch.org/docs/stable/amp.html, "CUDA Ops that can autocast"); TorchNeuron documents
    that it follows those lists. The tensors are in float32 as they come, in the narrower dtype, and of both.
    """

    name = "autocast"
    meaning = (
        "Under torch.autocast, in bfloat16 and float16, results have the dtypes that CUDA's casting lists "
        "give them, and the values of the CPU so cast, or of the CPU in float64."
    )
    wide = True
    derived = True

    def lacks(self, entry: Entry, dtype: torch.dtype) -> str:
        """Autocast leaves all but float32 and the dtypes it casts to alone."""
        if dtype == torch.float32:
            return ""
        return f"autocast is tried with float32 samples, which it casts, not with {dtype_name(dtype)}"

    def calls(self, subject: Subject) -> Sequence[Call]:
        """A few samples in every form."""
        return [
            form
            for call in spread(subject.calls, SAMPLES)
            for dtype in DTYPES
            for form in _forms(call, dtype)
        ]

    def act(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """On the CPU under the name of CUDA, in float64 too, which autocast leaves alone."""
        if device is None:
            shown = map_tensors(as_cuda.wrap, call)
            with as_cuda.autocast(call.note):
                result = subject.entry.run(shown)
            return tree_map(as_cuda.unwrap, result)
        _require(device.name, call.note)
        with torch.autocast(device.name, dtype=call.note):
            return subject.entry.run(call)

    def invoke(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """Of what the reference raises, only autocast's own refusals count."""
        result = super().invoke(subject, call, device)
        if isinstance(result, Raised) and "autocast" not in str(result.error):
            raise result.error
        return result

    def tolerance(self, sample: Sample, device: TestedDevice) -> ToleranceOf:
        """float32 too is only as exact as the narrower dtype, unless the reference computed in float32."""
        if _agrees_with_float64(sample, device):
            return device.tolerance
        narrow = device.tolerance(dtype_name(sample.call.note))

        def coarser(dtype: str) -> Tolerance:
            own = device.tolerance(dtype)
            if dtype != "float32":
                return own
            return Tolerance(max(own.rtol, narrow.rtol), max(own.atol, narrow.atol))

        return coarser


def _forms(call: Call, dtype: torch.dtype) -> Iterator[Call]:
    said = f"autocast to {dtype_name(dtype)}, "
    yield dataclasses.replace(call, note=dtype, form=said + "float32 arguments")
    floats = sum(tensor.is_floating_point() for tensor in call.tensors())
    if floats:
        narrow = map_tensors(lambda tensor: _cast(tensor, dtype), call)
        yield dataclasses.replace(narrow, note=dtype, form=said + f"{dtype_name(dtype)} arguments")
    if floats > 1:
        count = itertools.count()
        mixed = map_tensors(lambda tensor: _first_cast(tensor, dtype, count), call)
        yield dataclasses.replace(mixed, note=dtype, form=said + "arguments of both")


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _first_cast(tensor: torch.Tensor, dtype: torch.dtype, count: Iterator[int]) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() and next(count) == 0 else tensor


def _require(device: str, dtype: torch.dtype) -> None:
    """Refuse for a device that does not promise CUDA's casts.

    Raises:
        NotImplementedError: there is no autocast for the device, or not to this dtype, or with other lists.
    """
    if device == "cpu":
        raise NotImplementedError("the CPU's autocast has lists of its own; CUDA's are compared with here")
    if not torch.amp.is_autocast_available(device):
        raise NotImplementedError(f"device {device} has no autocast")
    supported = getattr(torch.get_device_module(device), "get_amp_supported_dtype", None)
    if supported is not None and dtype not in supported():
        raise NotImplementedError(f"autocast of device {device} does not cast to {dtype_name(dtype)}")


def _agrees_with_float64(sample: Sample, device: TestedDevice) -> bool:
    if isinstance(sample.expected.value, Raised) or (second := sample.wide) is None:
        return False
    wide = narrowed(second, sample.expected)
    if wide is None:
        return False
    found = compare(sample.expected.value, wide.value, device.tolerance, device=None)
    return found.outcome is Outcome.PASSED
