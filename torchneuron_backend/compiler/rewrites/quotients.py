"""Whole quotients and remainders of floats. XLA may divide by multiplying with a reciprocal, so a quotient
can miss the whole number that it is by one unit in the last place; what is cut off it must not show that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .registry import aten, rewrites


class _Divisor:
    """What is divided by. Of a number, Python says whether it is negative, zero or infinite: such a
    comparison left to Torch-MLIR is folded, and its fold of a constant to a bool is now and then wrong.
    """

    negative: Any
    zero: Any
    infinite: Any

    def __init__(self, given: Any, dtype: torch.dtype) -> None:
        if isinstance(given, torch.Tensor):
            self.value = given.to(dtype)
            self.negative, self.zero, self.infinite = (
                self.value < 0, self.value == 0, torch.isinf(self.value)
            )  # fmt: skip
            return
        with _disable_current_modes():  # rounded to the dtype, as the CPU reads it
            number = float(torch.tensor(given, dtype=dtype))
        self.value = torch.full((), number, dtype=dtype)
        self.negative, self.zero, self.infinite = number < 0, number == 0, math.isinf(number)


def _as_floats(x: torch.Tensor, y: Any) -> tuple[torch.Tensor, _Divisor] | None:
    """Both in the float dtype that they have in common; None where that is no float."""
    dtype = torch.result_type(x, y)
    return (x.to(dtype), _Divisor(y, dtype)) if dtype.is_floating_point else None


def _where(condition: Any, yes: torch.Tensor, no: torch.Tensor) -> torch.Tensor:
    if isinstance(condition, bool):
        return yes if condition else no
    return torch.where(condition, yes, no)


def _rest(x: torch.Tensor, by: _Divisor) -> torch.Tensor:
    """The remainder with the sign of ``x``."""
    size = by.value.to(x.dtype).abs()
    rest = x.abs() - torch.floor(x.abs() / size) * size
    rest = torch.where(rest < 0, rest + size, rest)
    rest = torch.where(rest >= size, rest - size, rest)
    rest = _where(by.infinite, torch.where(torch.isfinite(x), x.abs(), rest), rest)
    return torch.where(x < 0, -rest, rest)


@rewrites(aten.fmod.Tensor, aten.fmod.Scalar)
def _fmod(x: torch.Tensor, y: Any) -> Any:
    floats = _as_floats(x, y)
    if floats is None:
        return NotImplemented if isinstance(y, torch.Tensor) else torch.fmod(x, torch.full_like(x, y))
    return _rest(*floats)


@rewrites(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div(x: torch.Tensor, y: Any, *, rounding_mode: str | None = None) -> Any:
    floats = _as_floats(x, y)
    # The CPU cuts a quotient of two-byte floats that has been rounded, and so do they here.
    if floats is None or rounding_mode is None or (rounding_mode == "trunc" and floats[0].itemsize == 2):
        return NotImplemented
    return _whole(floats[0].float(), floats[1], rounding_mode).to(floats[0].dtype)


def _whole(x: torch.Tensor, by: _Divisor, rounding_mode: str) -> torch.Tensor:
    y, rest = by.value.float(), _rest(x, by)
    # A whole number up to its last place, wherever the division itself is.
    whole = torch.round((x - rest) / y)
    if rounding_mode == "floor":
        differ = _where(by.negative, ~(rest < 0), rest < 0)
        whole = torch.where((rest != 0) & differ, whole - 1, whole)
    whole = torch.where(whole == 0, torch.copysign(torch.zeros_like(whole), x / y), whole)
    # An infinity has no floor on the CPU, but it can be cut.
    if rounding_mode != "floor":
        whole = torch.where(torch.isfinite(rest), whole, x / y)
    return _where(by.zero, x / y, whole)


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
