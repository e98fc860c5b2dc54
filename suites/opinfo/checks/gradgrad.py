"""Second derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from suites.compare import ToleranceOf
from suites.device import TestedDevice, Tolerance
from suites.opinfo.checks.backward import Backward
from suites.opinfo.checks.base import UnfitCallError
from suites.opinfo.checks.derivatives import cotangents, inputs_of, lacks_derivative, outputs_of
from suites.opinfo.entries import Entry
from suites.opinfo.judge import Sample
from suites.opinfo.samples import Call, spread, with_elements
from suites.opinfo.subject import Subject

_KERNELS = 8
"""Roundings that a second derivative may be off by; the chains of op_db's operators are about as long."""


class GradGrad(Backward):
    """Of the gradients, by the arguments and by the first cotangents, as ``gradgradcheck`` does."""

    name = "gradgrad"
    meaning = "Gradients of gradients agree with the CPU's, and are missing where the CPU's are."
    most = 5

    def lacks(self, entry: Entry, dtype: torch.dtype) -> str:
        """What torch's list does not differentiate twice."""
        once = lacks_derivative(entry, dtype)
        return once or ("" if entry.twice else f"{entry.database} lists no second derivative for it")

    def tolerance(self, sample: Sample, device: TestedDevice) -> ToleranceOf:
        """In two bytes wider: a second derivative is the work of several kernels, each of which rounds."""

        def wider(dtype: str) -> Tolerance:
            bound = device.tolerance(dtype)
            if dtype not in ("float16", "bfloat16"):
                return bound
            return Tolerance(_KERNELS * bound.rtol, _KERNELS * bound.atol)

        return wider

    def calls(self, subject: Subject) -> Sequence[Call]:
        """With elements if there are such."""
        return spread(with_elements(subject.differentiable_calls), self.most)

    def _derive(self, subject: Subject, call: Call, device: TestedDevice | None) -> dict[str, Any]:
        """Which outputs and gradients have a history, and the second gradients."""
        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative on any device
            return self._derive_twice(subject, call, device)

    def _derive_twice(self, subject: Subject, call: Call, device: TestedDevice | None) -> dict[str, Any]:
        outputs_with, outputs = outputs_of(call, subject.entry.run(call))
        inputs = inputs_of(call)
        if device is None and not (outputs and inputs):
            raise UnfitCallError
        first, ways = _first(outputs, inputs, subject.seed)
        gradients_with, differentiable = outputs_of(Call((), {}), first)
        if device is None and not differentiable:
            raise UnfitCallError
        second: list[torch.Tensor | None] = [None for _ in (*inputs, *ways)]
        if differentiable:
            again = cotangents(differentiable, subject.seed + 1)
            by = (*inputs, *ways)
            second = list(torch.autograd.grad(differentiable, by, again, allow_unused=True))
        return {
            "differentiable_outputs": outputs_with,
            "differentiable_gradients": gradients_with,
            "second": second,
        }


def _first(
    outputs: list[torch.Tensor], inputs: list[torch.Tensor], seed: int
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The gradients that there are, with a history, and the cotangents that they were made with."""
    if not outputs:
        return [], []
    ways = [way.requires_grad_() for way in cotangents(outputs, seed)]
    found = torch.autograd.grad(outputs, inputs, ways, allow_unused=True, create_graph=True)
    return [gradient for gradient in found if gradient is not None], ways
