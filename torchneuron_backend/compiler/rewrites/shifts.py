"""Shifts of bits: all by the overloads of two tensors, in one shape and with the sign of their dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .registry import aten, rewrites

_LEFT, _RIGHT = aten.bitwise_left_shift.Tensor, aten.bitwise_right_shift.Tensor


@rewrites(_LEFT)
def _left(x: torch.Tensor, y: torch.Tensor) -> Any:
    return NotImplemented if x.shape == y.shape else _LEFT(*_in_one_shape(x, y))


@rewrites(_RIGHT)
def _right(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Unsigned bytes as wider integers: Torch-MLIR would take their highest bit for a sign."""
    if torch.result_type(x, y) == torch.uint8:
        return _RIGHT(x.to(torch.int32), y.to(torch.int32)).to(torch.uint8)
    return NotImplemented if x.shape == y.shape else _RIGHT(*_in_one_shape(x, y))


def _in_one_shape(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Torch-MLIR dies of shifts that broadcast."""
    return [side.clone() for side in torch.broadcast_tensors(x, y)]


def _of_tensors(shift: Any) -> Callable[..., Any]:
    """With a number made into a tensor of the other side's dtype."""

    def computed(x: Any, y: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            x = torch.full_like(y, x)
        if not isinstance(y, torch.Tensor):
            y = torch.full_like(x, y)
        if x.dtype.is_floating_point or y.dtype.is_floating_point:
            return NotImplemented
        return shift(x, y)

    return computed


rewrites(
    aten.__lshift__.Scalar,
    aten.__lshift__.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_left_shift.Scalar_Tensor,
)(_of_tensors(_LEFT))
rewrites(
    aten.__rshift__.Scalar,
    aten.__rshift__.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Scalar_Tensor,
)(_of_tensors(_RIGHT))
