"""Compares the values of two tensors of one shape and dtype, whole tensors at a time."""

from __future__ import annotations

import dataclasses
import math

import torch

from suites.device import Tolerance

EXACT = Tolerance(rtol=0.0, atol=0.0)
_WIDE_INTEGERS = {torch.uint16: torch.int32, torch.uint32: torch.int64}


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """What comparing two tensors came to.

    Attributes:
        compared: elements looked at.
        informative: of these, the ones that are not NaN on both sides.
        mismatched: elements that lie further apart than they may.
        max_abs_error, max_rel_error: over the elements that are finite on both sides.
        message: the worst element in words, ``""`` where all agree.
    """

    compared: int
    informative: int
    mismatched: int = 0
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    message: str = ""


def measure(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> Measured:
    """Compare the values of two tensors whose shape, dtype and layout agree.

    Integers and booleans must be equal whatever the tolerance. NaN agrees with NaN only, an
    infinity only with the same one. Narrow floats are compared in float32, complex numbers by
    their real and imaginary parts.
    """
    one, two = _comparable(actual), _comparable(expected)
    if not one.numel():
        return Measured(0, 0)
    if one.is_floating_point():
        return _measure_floats(one, two, tolerance, expected)
    return _measure_integers(one, two, expected)


def _measure_integers(one: torch.Tensor, two: torch.Tensor, expected: torch.Tensor) -> Measured:
    different = one != two
    wrong, count = int(different.sum()), one.numel()
    if not wrong:
        return Measured(count, count)
    # Two big integers can differ and yet be one float64.
    error = torch.where(different, (one.double() - two.double()).abs().clamp_min(1.0), 0.0)
    size = two.double().abs()
    return Measured(
        compared=count,
        informative=count,
        mismatched=wrong,
        max_abs_error=float(error.max()),
        max_rel_error=_largest((error / size)[size > 0]),
        message=_worst(one, two, error, wrong, EXACT, expected),
    )


def _measure_floats(
    one: torch.Tensor, two: torch.Tensor, tolerance: Tolerance, expected: torch.Tensor
) -> Measured:
    if torch.equal(one, two):  # no NaN then; the usual case by far
        return Measured(one.numel(), one.numel())
    both_nan = one.isnan() & two.isnan()
    finite = one.isfinite() & two.isfinite()
    error, size = (one - two).abs(), two.abs()
    # By how much each element exceeds its bound; inf where NaN or an infinity stand on one side only.
    excess = torch.where(finite, error - (tolerance.atol + tolerance.rtol * size), torch.inf)
    excess = excess.masked_fill(both_nan | (one == two), 0.0)
    wrong = int((excess > 0).sum())
    measurable = finite & (size > 0)
    return Measured(
        compared=one.numel(),
        informative=one.numel() - int(both_nan.sum()),
        mismatched=wrong,
        max_abs_error=_largest(error[finite]),
        max_rel_error=_largest(error[measurable] / size[measurable]),
        message=_worst(one, two, excess, wrong, tolerance, expected) if wrong else "",
    )


def _largest(errors: torch.Tensor) -> float:
    return float(errors.max()) if errors.numel() else 0.0


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The values on the CPU, dense, in a dtype whose arithmetic is wide enough to compare them."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.cpu()
    if tensor.is_complex():
        wide = tensor if tensor.dtype != torch.complex32 else tensor.to(torch.complex64)
        return torch.view_as_real(wide.resolve_conj())
    if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
        return tensor.float()
    if tensor.dtype == torch.uint64:  # no arithmetic of its own; the same bits, seen as signed
        return tensor.view(torch.int64)
    return tensor.to(_WIDE_INTEGERS.get(tensor.dtype, tensor.dtype))


def _worst(
    one: torch.Tensor,
    two: torch.Tensor,
    excess: torch.Tensor,
    wrong: int,
    tolerance: Tolerance,
    expected: torch.Tensor,
) -> str:
    flat = int(excess.flatten().argmax())
    index = _unravel(flat, list(one.shape))[: expected.dim()]  # without the part of a complex number
    got, want = one.flatten()[flat].item(), two.flatten()[flat].item()
    error = abs(got - want)
    bound = "exactly" if tolerance == EXACT else f"within rtol={tolerance.rtol:g}, atol={tolerance.atol:g}"
    return (
        f"{wrong} of {one.numel()} elements of {dtype_name(expected.dtype)} do not agree {bound}; worst"
        + (f" at {tuple(index)}" if index else "")
        + f": {got!r}, expected {want!r}"
        + (f", off by {error:.3g}" if math.isfinite(error) else "")
    )


def _unravel(flat: int, shape: list[int]) -> list[int]:
    index: list[int] = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return index[::-1]


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")
