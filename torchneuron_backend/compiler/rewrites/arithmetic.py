"""Elementwise operators that Torch-MLIR gets wrong or knows for some dtypes only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .registry import aten, rewrites


@rewrites(aten.remainder.Tensor, aten.remainder.Scalar)
def _remainder(x: torch.Tensor, y: Any) -> torch.Tensor:
    """The remainder with the divisor's sign, from the one with the dividend's."""
    rest = torch.fmod(x, y)
    opposite = (rest < 0) != (y < 0)
    return torch.where((rest != 0) & opposite, rest + y, rest)


@rewrites(aten.remainder.Scalar_Tensor)
def _remainder_of_number(number: Any, y: torch.Tensor) -> torch.Tensor:
    dtype = torch.result_type(number, y)
    return aten.remainder.Tensor(torch.full_like(y, number, dtype=dtype), y)


@rewrites(aten.abs.default)
def _abs(x: torch.Tensor) -> Any:
    return x.clone() if x.dtype == torch.uint8 else NotImplemented


def _on_integers(operation: Any) -> Callable[..., Any]:
    """Float functions of integers are computed in float32, as PyTorch promotes them."""

    def computed(x: torch.Tensor) -> Any:
        return NotImplemented if x.dtype.is_floating_point else operation(x.float())

    return computed


for _overload in (aten.erf.default, aten.reciprocal.default):
    rewrites(_overload)(_on_integers(_overload))


def _compare_numbers(operation: Any) -> Callable[..., Any]:
    """Booleans are compared as integers: XLA and Torch-MLIR disagree on whether they have a sign.

    And what is not a number is not equal to itself, which Torch-MLIR takes for granted.
    """

    def computed(x: torch.Tensor, y: Any) -> Any:
        if y is x and x.dtype.is_floating_point and operation is aten.eq.Tensor:
            return torch.logical_not(torch.ne(x, x))
        booleans = x.dtype == torch.bool and (not isinstance(y, torch.Tensor) or y.dtype == torch.bool)
        if not booleans:
            return NotImplemented
        return operation(x.to(torch.int32), y.to(torch.int32) if isinstance(y, torch.Tensor) else y)

    return computed


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    for _overload in (getattr(aten, _name).Tensor, getattr(aten, _name).Scalar):
        rewrites(_overload)(_compare_numbers(_overload))


@rewrites(aten.clamp_min.Tensor)
def _clamp_min(x: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    return torch.logical_or(x, low) if x.dtype == low.dtype == torch.bool else torch.maximum(x, low)


@rewrites(aten.clamp_max.Tensor)
def _clamp_max(x: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    return torch.logical_and(x, high) if x.dtype == high.dtype == torch.bool else torch.minimum(x, high)


@rewrites(aten.addmv.default)
def _addmv(
    x: torch.Tensor, matrix: torch.Tensor, vector: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    # The factors take the tensors' own kind: 0.2 is 0 among integers.
    kind = float if x.dtype.is_floating_point else int
    product = torch.mv(matrix, vector) * kind(alpha)
    return product if kind(beta) == 0 else x * kind(beta) + product


@rewrites(aten.sign.default)
def _sign(x: torch.Tensor) -> Any:
    return x.clone() if x.dtype == torch.bool else NotImplemented


@rewrites(aten.isin.Tensor_Tensor)
def _isin(
    elements: torch.Tensor, tests: torch.Tensor, *, assume_unique: bool = False, invert: bool = False
) -> torch.Tensor:
    found = (elements.unsqueeze(-1) == tests.reshape(-1)).any(-1)
    return ~found if invert else found
