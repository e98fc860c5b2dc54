"""Reductions: scalars, two-byte dtypes, and positions of extremes.

Torch-MLIR dies of a reduction over a scalar's only "dimension", and XLA adds two-byte floats up in two bytes:
the mean of 4096 bfloat16 values near a half came out as a quarter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .registry import aten, rewrites

_HALVES = (torch.bfloat16, torch.float16)


def _through_float32(operation: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Accumulate in float32 what comes in two bytes; as it is otherwise."""

    @functools.wraps(operation)
    def computed(x: torch.Tensor, *args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
        wanted = dtype or x.dtype
        if x.dtype in _HALVES and wanted in (x.dtype, torch.float32):
            return operation(x.float(), *args, **kwargs).to(wanted)
        return NotImplemented

    return computed


for _overload in (aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim):
    rewrites(_overload)(_through_float32(_overload))
for _overload in (aten.prod.default, aten.prod.dim_int, aten.cumsum.default):
    rewrites(_overload)(_through_float32(_overload))


def _on_scalars(overload: Any) -> None:
    """Give a scalar one dimension for the time of the reduction over ``dim``."""

    def computed(x: torch.Tensor, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
        if x.ndim == 0:
            reduced = overload(x.reshape(1), [0] if isinstance(dim, (list, tuple)) else 0, *args, **kwargs)
            return torch.utils._pytree.tree_map_only(torch.Tensor, lambda result: result.reshape(()), reduced)
        return NotImplemented

    rewrites(overload)(computed)


for _overload in (aten.amax.default, aten.amin.default, aten.prod.dim_int, aten.cumsum.default):
    _on_scalars(_overload)
# Torch-MLIR 20261001 does not die of a scalar's softmax: it never ends.
for _overload in (aten._softmax.default, aten.mean.dim, aten.sum.dim_IntList):
    _on_scalars(_overload)


def _scatter_on_scalars(overload: Any) -> None:
    def computed(x: torch.Tensor, dim: int, index: torch.Tensor, source: Any) -> Any:
        if x.ndim:
            return NotImplemented
        values = source.reshape(1) if isinstance(source, torch.Tensor) else source
        return overload(x.reshape(1), 0, index.reshape(1), values).reshape(())

    rewrites(overload)(computed)


for _overload in (aten.scatter.src, aten.scatter.value, aten.scatter_add.default):
    _scatter_on_scalars(_overload)


@rewrites(aten.cumprod.default)
def _cumprod(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """In as many steps as the length has bits: each multiplies with what stands 1, 2, 4, … before."""
    wanted = dtype or (x.dtype if x.dtype.is_floating_point else torch.int64)
    if x.ndim == 0:
        return x.to(wanted)
    dim %= x.ndim
    product = x.float() if wanted in _HALVES else x.to(wanted)
    distance = 1
    while distance < x.shape[dim]:
        padding = [0, 0] * (x.ndim - dim - 1) + [distance, 0]
        earlier = aten.constant_pad_nd(product.narrow(dim, 0, x.shape[dim] - distance), padding, 1)
        product = product * earlier
        distance *= 2
    return product.to(wanted)


def _position(x: torch.Tensor, extreme: torch.Tensor, dim: int) -> torch.Tensor:
    """Where along ``dim`` the first element equal to ``extreme`` (kept dimension) is; a NaN equals a NaN."""
    found = x == extreme
    if x.dtype.is_floating_point:
        found = found | (x.isnan() & extreme.isnan())
    shape = [1] * x.ndim
    shape[dim] = x.shape[dim]
    places = torch.arange(x.shape[dim]).reshape(shape).expand(x.shape)
    return torch.where(found, places, torch.full_like(places, x.shape[dim])).amin(dim, keepdim=True)


def _numbers(x: torch.Tensor) -> torch.Tensor:
    """Booleans as integers: XLA does not order booleans the way Torch-MLIR asks it to."""
    return x.to(torch.int32) if x.dtype == torch.bool else x


def _extreme(x: torch.Tensor, dim: int, keepdim: bool, reduce: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if x.ndim == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    dim %= x.ndim
    numbers = _numbers(x)
    extreme = reduce(numbers, [dim], True)
    where = _position(numbers, extreme, dim)
    if not keepdim:
        extreme, where = extreme.squeeze(dim), where.squeeze(dim)
    return extreme.to(x.dtype), where


@rewrites(aten.max.dim)
def _max(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return _extreme(x, dim, keepdim, aten.amax)


@rewrites(aten.min.dim)
def _min(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return _extreme(x, dim, keepdim, aten.amin)


def _argument(x: torch.Tensor, dim: int | None, keepdim: bool, reduce: Any) -> torch.Tensor:
    if dim is not None:
        return _extreme(x, dim, keepdim, reduce)[1]
    where = _extreme(x.reshape(-1), 0, False, reduce)[1]
    return where.reshape([1] * x.ndim) if keepdim else where


@rewrites(aten.argmax.default)
def _argmax(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    return _argument(x, dim, keepdim, aten.amax)


@rewrites(aten.argmin.default)
def _argmin(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    return _argument(x, dim, keepdim, aten.amin)


@rewrites(aten.any.dim)
def _any(x: torch.Tensor, dim: int, keepdim: bool = False) -> torch.Tensor:
    truth = (x != 0).to(torch.int32)
    return (truth if x.ndim == 0 else truth.amax(dim, keepdim=keepdim)) != 0


@rewrites(aten.all.dim)
def _all(x: torch.Tensor, dim: int, keepdim: bool = False) -> torch.Tensor:
    truth = (x != 0).to(torch.int32)
    return (truth if x.ndim == 0 else truth.amin(dim, keepdim=keepdim)) != 0


@rewrites(aten.all.dims)
def _all_dims(x: torch.Tensor, dim: list[int] | None = None, keepdim: bool = False) -> torch.Tensor:
    """Over every dimension where none is named; none of an empty list."""
    dims = list(range(x.ndim)) if dim is None else sorted(each % max(x.ndim, 1) for each in dim)
    truth = x != 0
    if x.ndim == 0 or not dims:
        return truth
    if 0 in (x.shape[each] for each in dims):
        sizes = [1 if each in dims else size for each, size in enumerate(x.shape)]
        kept = [size for each, size in enumerate(sizes) if keepdim or each not in dims]
        return torch.ones(kept, dtype=torch.bool)
    return truth.to(torch.int32).amin(dims, keepdim=keepdim) != 0


@rewrites(aten.equal.default)
def _equal(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """As a tensor of no dimension; its caller reads a bool out of it."""
    if left.shape != right.shape:
        return torch.zeros([], dtype=torch.bool)
    return (left == right).all() if left.numel() else torch.ones([], dtype=torch.bool)
