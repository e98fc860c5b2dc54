"""The check of tensors without elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import torch

from results.vocabulary import Outcome
from suites.device import TestedDevice
from suites.opinfo.checks.base import Check
from suites.opinfo.entries import Entry
from suites.opinfo.judge import Sample
from suites.opinfo.samples import Call, map_tensors, spread
from suites.opinfo.subject import Subject
from suites.opinfo.traits import load_traits


class ZeroSize(Check):
    """Calls with a dimension of size zero."""

    name = "zero_size"
    meaning = "Where one size is 0 in all tensors and the CPU does not raise, shape, dtype and values agree."
    derived = True
    wide = True
    empty_proves = True
    calls_prove = False  # where nothing is to be computed, nothing need be called

    def lacks(self, entry: Entry, dtype: torch.dtype) -> str:
        """For some the CPU is no reference."""
        return load_traits().why_without_reference(self.name, entry.name)

    def calls(self, subject: Subject) -> Sequence[Call]:
        """Samples that have such a tensor, and samples made so."""
        have = [call for call in subject.calls if not all(tensor.numel() for tensor in call.tensors())]
        made = [made for call in subject.calls for made in _emptied(call)]
        return spread(have, self.most // 2) + spread(made, self.most - min(len(have), self.most // 2))

    def judge(self, sample: Sample, subject: Subject, device: TestedDevice) -> None:
        """NaN throughout is what, for example, the mean of nothing has to be."""
        super().judge(sample, subject, device)
        if sample.outcome is Outcome.VACUOUS:
            sample.outcome, sample.message = Outcome.PASSED, ""
        if sample.message and sample.call.form:
            sample.message = f"{sample.call.form}: {sample.message}"


def _emptied(call: Call) -> Iterator[Call]:
    """One call for every size that the first tensor has: dimensions of it, in all tensors, are made 0."""
    tensors = call.tensors()
    if not tensors or not all(map(_can_be_emptied, tensors)) or not all(one.numel() for one in tensors):
        return
    for size in dict.fromkeys(tensors[0].shape):
        made = map_tensors(lambda tensor: _without(tensor, size), call)  # noqa: B023 - done at once
        yield dataclasses.replace(made, form=f"sizes of {size} made 0")


def _can_be_emptied(tensor: torch.Tensor) -> bool:
    return type(tensor) is torch.Tensor and tensor.layout == torch.strided


def _without(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Contiguous, without elements where a dimension has this size, else the tensor itself."""
    if size not in tensor.shape:
        return tensor
    return tensor.new_zeros([0 if length == size else length for length in tensor.shape])
