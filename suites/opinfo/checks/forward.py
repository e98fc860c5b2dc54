"""Checks that run the functional form: as it is, with awkward memory, and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from results.vocabulary import Outcome
from suites.compare import compare
from suites.device import TestedDevice
from suites.opinfo.checks.base import Check
from suites.opinfo.entries import Entry
from suites.opinfo.judge import Sample
from suites.opinfo.samples import Call, map_tensors, seed_everything, spread
from suites.opinfo.subject import Subject
from suites.opinfo.traits import UNINITIALISED, load_traits
from suites.values import EXACT


class Forward(Check):
    """The call itself."""

    name = "forward"
    meaning = "The result, and what was written into arguments, agree with the CPU's."
    wide = True


class NonContiguous(Check):
    """Tensors that lie in memory with gaps."""

    name = "noncontiguous"
    meaning = "The same with arguments whose elements do not lie side by side in memory."
    wide = True
    derived = True
    empty_proves = True

    def calls(self, subject: Subject) -> Sequence[Call]:
        """Those of the samples that have a tensor of at least two elements."""
        made = [map_tensors(with_gaps, call) for call in subject.calls if _has_room(call)]
        return spread(made, self.most)

    def same(self, call: Call) -> Call:
        """Without the gaps: some of the CPU's kernels, too, read what lies between the elements."""
        return map_tensors(_without_gaps, call)


def _without_gaps(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format) if can_have_gaps(tensor) else tensor


def _has_room(call: Call) -> bool:
    return any(can_have_gaps(tensor) for tensor in call.tensors())


def can_have_gaps(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.numel() > 1 and type(tensor) is torch.Tensor


def with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in every other element of twice the memory, as upstream's ``noncontiguous_like``."""
    if not can_have_gaps(tensor):
        return tensor
    return torch.stack([tensor, torch.zeros_like(tensor)], dim=-1)[..., 0].detach()


class Determinism(Check):
    """The same call three times under one seed."""

    name = "determinism"
    meaning = "Three runs under one seed give the same bits, whatever the CPU gives."
    most = 5

    def lacks(self, entry: Entry, dtype: torch.dtype) -> str:
        """Nothing was promised of memory that nobody wrote."""
        unwritten = load_traits().uncompared.get(entry.name) == UNINITIALISED
        return "it returns uninitialised memory" if unwritten else ""

    def invoke(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """A list of three results, each with what was written into the arguments; one on the CPU."""
        results = []
        for _ in range(3 if device else 1):
            again = map_tensors(torch.clone, call)
            seed_everything(subject.seed, device.name if device else "cpu")
            results.append([subject.entry.run(again), again.tensors()])
        return results

    def judge(self, sample: Sample, subject: Subject, device: TestedDevice) -> None:
        """Bit for bit among themselves; shape and dtype are ``forward``'s to compare."""

        def agree() -> None:
            first, *others = sample.actual
            for number, other in enumerate(others, 2):
                found = compare(other, first, lambda _: EXACT, name=f"run {number}", device=None)
                sample.outcome, sample.message, sample.metrics = (
                    found.outcome,
                    found.message,
                    dict(found.metrics),
                )
                sample.uninformative = found.outcome is Outcome.VACUOUS
                if found.outcome is Outcome.FAILED_NUMERIC:
                    return

        sample.conclude(agree, device)
