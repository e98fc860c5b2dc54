"""First derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from suites.device import TestedDevice
from suites.opinfo.checks.base import Check, UnfitCallError
from suites.opinfo.checks.derivatives import (
    cotangents,
    inputs_of,
    lacks_derivative,
    outputs_of,
    unfit_without_derivative,
)
from suites.opinfo.entries import Entry
from suites.opinfo.samples import Call, spread
from suites.opinfo.subject import Subject


class Backward(Check):
    """By every tensor argument that requires a gradient."""

    name = "backward"
    meaning = "Gradients by every argument agree with the CPU's, and are missing where the CPU's are."
    wide = True
    paired = False

    def lacks(self, entry: Entry, dtype: torch.dtype) -> str:
        """What torch's list does not differentiate."""
        return lacks_derivative(entry, dtype)

    def calls(self, subject: Subject) -> Sequence[Call]:
        """With arguments that require a gradient."""
        return spread(subject.differentiable_calls, self.most)

    def invoke(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """Which outputs have a history, and the gradients, ``None`` for an argument without."""
        with unfit_without_derivative(device):
            return self._derive(subject, call, device)

    def _derive(self, subject: Subject, call: Call, device: TestedDevice | None) -> dict[str, Any]:
        differentiable, outputs = outputs_of(call, subject.entry.run(call))
        inputs = inputs_of(call)
        if device is None and not (outputs and inputs):
            raise UnfitCallError
        return {
            "differentiable_outputs": differentiable,
            "gradients": gradients(outputs, inputs, subject.seed),
        }


def gradients(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], seed: int
) -> list[torch.Tensor | None]:
    """Of the outputs under cotangents of this seed; ``None`` for all if there is no output."""
    if not outputs:
        return [None for _ in inputs]
    return list(torch.autograd.grad(outputs, inputs, cotangents(outputs, seed), allow_unused=True))
