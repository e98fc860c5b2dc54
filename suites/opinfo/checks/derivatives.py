"""What checks share that differentiate: outputs, inputs, and cotangents that are the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from results.vocabulary import Category
from suites.device import TestedDevice
from suites.opinfo.checks.base import UnfitCallError
from suites.opinfo.entries import Entry
from suites.opinfo.samples import Call, tensors_in
from suites.values import dtype_name

COTANGENT_STEPS = 32
"""Cotangents are multiples of 1/16 up to this many of them: every floating dtype has them exactly."""


_NO_DERIVATIVE = re.compile(r"^derivative for .* is not implemented")


def lacks_derivative(entry: Entry, dtype: torch.dtype) -> str:
    """Why an entry has no derivative in a dtype; ``""`` if it has."""
    if dtype in entry.gradient_dtypes:
        return ""
    where = f" in {dtype_name(dtype)}" if entry.gradient_dtypes else ""
    return f"{entry.database} lists no derivative{where} for it"


@contextmanager
def unfit_without_derivative(device: TestedDevice | None) -> Iterator[None]:
    """On the CPU, tell a derivative that torch does not have there from a call that fails."""
    try:
        yield
    except RuntimeError as error:
        if device is None and (isinstance(error, NotImplementedError) or _NO_DERIVATIVE.search(str(error))):
            why = f"the CPU has no such derivative either: {error}"
            raise UnfitCallError(why, Category.REFERENCE_FAILED) from error
        raise


def outputs_of(call: Call, result: Any) -> tuple[str, list[torch.Tensor]]:
    """The tensors to differentiate, and which ones of the result's they are, in words.

    The words are compared with the CPU's: an output that lost its history is not just left out.
    """
    leaves = list(tensors_in(call.differentiated(result)))
    places = [place for place, leaf in enumerate(leaves) if leaf.requires_grad]
    return ", ".join(map(str, places)) or "none", [leaves[place] for place in places]


def inputs_of(call: Call) -> list[torch.Tensor]:
    """The tensors to differentiate by."""
    return [tensor for tensor in call.tensors() if tensor.requires_grad]


def cotangents(outputs: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """One for each output, of its shape, dtype and device; the same numbers in whatever dtype, none zero."""
    generator = torch.Generator().manual_seed(seed)
    return [_cotangent(output, generator) for output in outputs]


def _cotangent(output: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    def numbers() -> torch.Tensor:
        size = torch.randint(1, COTANGENT_STEPS + 1, output.shape, generator=generator)
        sign = torch.randint(0, 2, output.shape, generator=generator) * 2 - 1
        return (size * sign).to(torch.float64) / 16

    made = torch.complex(numbers(), numbers()) if output.is_complex() else numbers()
    return made.to(output.dtype).to(output.device)
