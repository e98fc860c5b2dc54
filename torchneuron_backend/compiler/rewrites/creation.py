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
