"""Floating-point numbers taken apart by arithmetic: the compiler has no view of their bits."""

from __future__ import annotations

import math
from typing import Any

import torch

from .registry import aten, rewrites

_LOWEST, _HIGHEST = -149, 127


def _power(exponent: torch.Tensor) -> torch.Tensor:
    """2 to an integer power in float32's range, exactly."""
    table = torch.tensor([2.0**each for each in range(_LOWEST, _HIGHEST + 1)], dtype=torch.float32)
    places = (exponent - _LOWEST).clamp(0, _HIGHEST - _LOWEST)
    return table.index_select(0, places.reshape(-1)).reshape(exponent.shape)


def _parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mantissa in [0.5, 1) and exponent, for finite float32 other than zero."""
    # A logarithm may be wrong by one: that is put right. Two factors, as 2^-exponent need not exist.
    guess = torch.floor(torch.log2(x.abs())).to(torch.int64) + 1
    half = torch.div(-guess, 2, rounding_mode="floor")
    mantissa = x * _power(half) * _power(-guess - half)
    large, small = mantissa.abs() >= 1.0, mantissa.abs() < 0.5
    mantissa = torch.where(large, mantissa * 0.5, torch.where(small, mantissa * 2.0, mantissa))
    return mantissa, guess + large.to(torch.int64) - small.to(torch.int64)


@rewrites(aten.frexp.Tensor)
def _frexp(x: torch.Tensor) -> Any:
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return NotImplemented
    wide = x.float()
    plain = (wide != 0) & (wide.abs() < math.inf)
    mantissa, exponent = _parts(torch.where(plain, wide, torch.ones_like(wide)))
    mantissa = torch.where(plain, mantissa, wide).to(x.dtype)
    return mantissa, torch.where(plain, exponent, torch.zeros_like(exponent)).to(torch.int32)
