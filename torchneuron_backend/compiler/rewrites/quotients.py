"""Whole quotients and remainders of floats. XLA may divide by multiplying with a reciprocal, so a quotient
can miss the whole number that it is by one unit in the last place; what is cut off it must not show that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .registry import aten, rewrites


def _as_floats(x: Any, y: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Both as tensors of the float dtype that they have in common; None where that is no float."""
    dtype = torch.result_type(x, y)
    if not dtype.is_floating_point:
        return None
    tensors = [
        side if isinstance(side, torch.Tensor) else torch.full((), side, dtype=dtype) for side in (x, y)
    ]
    return tensors[0].to(dtype), tensors[1].to(dtype)


def _rest(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The remainder with the sign of ``x``."""
    size = y.abs()
    rest = x.abs() - torch.floor(x.abs() / size) * size
    rest = torch.where(rest < 0, rest + size, rest)
    rest = torch.where(rest >= size, rest - size, rest)
    rest = torch.where(torch.isinf(y) & torch.isfinite(x), x.abs(), rest)
    return torch.where(x < 0, -rest, rest)


@rewrites(aten.fmod.Tensor, aten.fmod.Scalar)
def _fmod(x: torch.Tensor, y: Any) -> Any:
    floats = _as_floats(x, y)
    if floats is None:
        if isinstance(y, torch.Tensor):
            return NotImplemented
        dtype = torch.result_type(x, y)
        return torch.fmod(x.to(dtype), torch.full_like(x, y, dtype=dtype))
    return _rest(*floats)


@rewrites(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div(x: torch.Tensor, y: Any, *, rounding_mode: str | None = None) -> Any:
    floats = _as_floats(x, y)
    # The CPU cuts a quotient of two-byte floats that has been rounded, and so do they here.
    if floats is None or rounding_mode is None or (rounding_mode == "trunc" and floats[0].itemsize == 2):
        return NotImplemented
    return _whole(floats[0].float(), floats[1].float(), rounding_mode).to(floats[0].dtype)


def _whole(x: torch.Tensor, y: torch.Tensor, rounding_mode: str) -> torch.Tensor:
    rest = _rest(x, y)
    # A whole number up to its last place, wherever the division itself is.
    whole = torch.round((x - rest) / y)
    if rounding_mode == "floor":
        whole = torch.where((rest != 0) & ((rest < 0) != (y < 0)), whole - 1, whole)
    whole = torch.where(whole == 0, torch.copysign(torch.zeros_like(whole), x / y), whole)
    # An infinity has no floor on the CPU, but it can be cut.
    as_it_is = (y == 0) if rounding_mode == "floor" else (y == 0) | ~torch.isfinite(rest)
    return torch.where(as_it_is, x / y, whole)


@rewrites(aten.floor_divide.default, aten.floor_divide.Scalar)
def _floor_divide(x: torch.Tensor, y: Any) -> Any:
    if _as_floats(x, y) is None:
        return NotImplemented
    return _div(x, y, rounding_mode="floor")


def _without_freedom(then: Callable[[torch.Tensor, torch.Tensor], Any]) -> Callable[..., Any]:
    """Variance by a count that is not positive: zero on the CPU, and what it is to Torch-MLIR."""

    def computed(
        x: torch.Tensor,
        dim: list[int] | None = None,
        *,
        correction: float | None = None,
        keepdim: bool = False,
    ) -> Any:
        dims = list(dim) if dim else list(range(x.ndim))
        if math.prod(x.shape[each] for each in dims) > (1 if correction is None else correction):
            return NotImplemented
        mean = x.mean(dims, keepdim=True)
        squares = (x - mean).square().sum(dims, keepdim=keepdim)
        return then(squares / 0.0, mean if keepdim else mean.reshape(squares.shape))

    return computed


rewrites(aten.var.correction)(_without_freedom(lambda variance, mean: variance))
rewrites(aten.std.correction)(_without_freedom(lambda variance, mean: variance.sqrt()))
rewrites(aten.var_mean.correction)(_without_freedom(lambda variance, mean: (variance, mean)))
rewrites(aten.std_mean.correction)(_without_freedom(lambda variance, mean: (variance.sqrt(), mean)))
