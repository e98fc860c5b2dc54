"""New tensors. Memory without values is memory with zeros: an executable has no such thing as an unset
tensor.
"""

from __future__ import annotations

from typing import Any

import torch

from .registry import aten, rewrites


def _full(like: torch.Tensor | None, size: Any, value: float, dtype: torch.dtype | None) -> torch.Tensor:
    wanted = dtype or (torch.get_default_dtype() if like is None else like.dtype)
    return aten.scalar_tensor(value, dtype=wanted).expand(size)


@rewrites(aten.full.default)
def _full_of(size: list[int], value: Any, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    if dtype is None:
        dtype = {bool: torch.bool, int: torch.int64}.get(type(value))
    return _full(None, size, value, dtype)


@rewrites(aten.empty.memory_format)
def _empty(size: list[int], *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return _full(None, size, 0, dtype)


@rewrites(aten.empty_strided.default)
def _empty_strided(
    size: list[int], stride: list[int], *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return _full(None, size, 0, dtype)


@rewrites(aten.empty_like.default)
def _empty_like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return _full(x, x.shape, 0, dtype)


@rewrites(aten.new_empty.default, aten.new_zeros.default)
def _new_zeros(
    x: torch.Tensor, size: list[int], *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return _full(x, size, 0, dtype)


@rewrites(aten.new_empty_strided.default)
def _new_empty_strided(
    x: torch.Tensor, size: list[int], stride: list[int], *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return _full(x, size, 0, dtype)


@rewrites(aten.new_ones.default)
def _new_ones(
    x: torch.Tensor, size: list[int], *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return _full(x, size, 1, dtype)


@rewrites(aten.arange.default, aten.arange.start, aten.arange.start_step)
def _arange(*bounds: float, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """Two-byte floats are counted in float32 and rounded once."""
    if dtype not in (torch.bfloat16, torch.float16):
        return NotImplemented
    return aten.arange.start_step(*_from_zero(bounds), dtype=torch.float32).to(dtype)


def _from_zero(bounds: tuple[float, ...]) -> tuple[float, ...]:
    return (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]


@rewrites(aten.linspace.default)
def _linspace(start: float, end: float, steps: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """Between integers, in float64 from the nearer end, as on the CPU: a rounding decides which is next."""
    if dtype is None or dtype.is_floating_point or dtype.is_complex or steps < 2:
        return NotImplemented
    first, last = int(start), int(end)
    step = (float(last) - first) / (steps - 1)
    places = aten.arange.default(steps, dtype=torch.int64)
    ahead = first + step * places.to(torch.float64)
    behind = last - step * (steps - 1 - places).to(torch.float64)
    return torch.where(places < steps // 2, ahead, behind).to(dtype)
