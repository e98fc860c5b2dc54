"""Sorting and running extremes.

An element's rank is the number of elements before it, which XLA computes in one pass over all pairs without
storing them: quadratic in time, linear in memory.
"""

from __future__ import annotations

from typing import Any

import torch

from .registry import aten, rewrites


def _comparable(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int32) if x.dtype == torch.bool else x


def _ranks(x: torch.Tensor, descending: bool) -> torch.Tensor:
    """Stable ranks along the last dimension; a NaN is above every number."""
    mine, other = x.unsqueeze(-1), x.unsqueeze(-2)
    places = torch.arange(x.shape[-1])
    earlier = places < places.unsqueeze(1)
    before = other > mine if descending else other < mine
    same = other == mine
    if x.dtype.is_floating_point:
        nan, others = mine.isnan(), other.isnan()
        above = others & ~nan if descending else nan & ~others
        before, same = before | above, same | (nan & others)
    return (before | (same & earlier)).to(torch.int64).sum(-1)


def _sorted(x: torch.Tensor, dim: int, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Stably sorted values and where they were, with ``dim`` last."""
    moved = x.movedim(dim, -1).clone(memory_format=torch.contiguous_format)
    ranks = _ranks(_comparable(moved), descending)
    places = torch.arange(moved.shape[-1]).expand(moved.shape).clone()
    indices = torch.zeros_like(places).scatter(-1, ranks, places)
    return moved.gather(-1, indices), indices


@rewrites(aten.sort.stable)
def _sort(
    x: torch.Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.ndim == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64)
    values, indices = _sorted(x, dim, descending)
    return values.movedim(-1, dim).clone(), indices.movedim(-1, dim).clone()


def _pick(x: torch.Tensor, place: Any, dim: int, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The element of rank ``place``: a number, or a tensor of ranks with ``dim`` last and of size one."""
    if x.ndim == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64)
    values, indices = _sorted(x, dim, False)
    if not isinstance(place, torch.Tensor):
        place = torch.full([*values.shape[:-1], 1], place, dtype=torch.int64)
    picked = [each.gather(-1, place).movedim(-1, dim) for each in (values, indices)]
    if not keepdim:
        picked = [each.squeeze(dim) for each in picked]
    return picked[0].clone(), picked[1].clone()


@rewrites(aten.kthvalue.default)
def _kthvalue(
    x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    return _pick(x, k - 1, dim, keepdim)


def _first_nan_or(x: torch.Tensor, middle: Any, dim: int) -> Any:
    """The rank of the median: of the first NaN where there is one."""
    if x.ndim == 0 or not x.dtype.is_floating_point:
        return middle
    numbers = (~x.isnan()).to(torch.int64).movedim(dim, -1).sum(-1, keepdim=True)
    size = x.shape[dim]
    return torch.where(numbers < size, numbers, torch.full_like(numbers, middle))


@rewrites(aten.median.dim)
def _median_dim(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    middle = (x.shape[dim] - 1) // 2 if x.ndim else 0
    return _pick(x, _first_nan_or(x, middle, dim), dim, keepdim)


@rewrites(aten.nanmedian.dim)
def _nanmedian_dim(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    if x.ndim == 0 or not x.dtype.is_floating_point:
        return _median_dim(x, dim, keepdim)
    numbers = (~x.isnan()).to(torch.int64).movedim(dim, -1).sum(-1, keepdim=True)
    return _pick(x, torch.div((numbers - 1).clamp(min=0), 2, rounding_mode="floor"), dim, keepdim)


@rewrites(aten.median.default)
def _median(x: torch.Tensor) -> torch.Tensor:
    return _median_dim(x.reshape(-1), 0)[0]


@rewrites(aten.nanmedian.default)
def _nanmedian(x: torch.Tensor) -> torch.Tensor:
    return _nanmedian_dim(x.reshape(-1), 0)[0]


@rewrites(aten.mode.default)
def _mode(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The smallest of the most frequent values, and its last place."""
    if x.ndim == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64)
    moved = _comparable(x.movedim(dim, -1).clone(memory_format=torch.contiguous_format))
    counts = (moved.unsqueeze(-1) == moved.unsqueeze(-2)).to(torch.int64).sum(-1)
    frequent = counts == counts.amax(-1, keepdim=True)
    top = float("inf") if moved.dtype.is_floating_point else torch.iinfo(moved.dtype).max
    value = torch.where(frequent, moved, torch.full_like(moved, top)).amin(-1, keepdim=True)
    places = torch.arange(moved.shape[-1]).expand(moved.shape)
    where = torch.where(moved == value, places, torch.zeros_like(places)).amax(-1, keepdim=True)
    value, where = value.movedim(-1, dim), where.movedim(-1, dim)
    if not keepdim:
        value, where = value.squeeze(dim), where.squeeze(dim)
    return value.to(x.dtype).clone(), where.clone()


def _running(x: torch.Tensor, dim: int, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """In as many steps as the length has bits; among equals the later counts, and a NaN stays."""
    if x.ndim == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64)
    dim %= x.ndim
    size = x.shape[dim]
    shape = [size if each == dim else 1 for each in range(x.ndim)]
    value = _comparable(x)
    place = torch.arange(size).reshape(shape).expand(x.shape).clone()
    distance = 1
    while distance < size:
        head, tail = value.narrow(dim, 0, size - distance), value.narrow(dim, distance, size - distance)
        later = tail >= head if largest else tail <= head
        if x.dtype.is_floating_point:
            later = tail.isnan() | (later & ~head.isnan())
        first, second = place.narrow(dim, 0, size - distance), place.narrow(dim, distance, size - distance)
        value = torch.cat([value.narrow(dim, 0, distance), torch.where(later, tail, head)], dim)
        place = torch.cat([place.narrow(dim, 0, distance), torch.where(later, second, first)], dim)
        distance *= 2
    return value.to(x.dtype), place


@rewrites(aten.cummax.default)
def _cummax(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _running(x, dim, largest=True)


@rewrites(aten.cummin.default)
def _cummin(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return _running(x, dim, largest=False)


@rewrites(aten.logcumsumexp.default)
def _logcumsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    """As the running extremes, with log(exp(a) + exp(b)) for two."""
    if x.ndim == 0:
        return x.clone()
    dim %= x.ndim
    size, value, distance = x.shape[dim], x.float(), 1
    while distance < size:
        head, tail = value.narrow(dim, 0, size - distance), value.narrow(dim, distance, size - distance)
        top = torch.maximum(head, tail)
        both = top + torch.log1p(torch.exp(torch.minimum(head, tail) - top))
        both = torch.where(top.isinf(), top, both)
        value = torch.cat([value.narrow(dim, 0, distance), both], dim)
        distance *= 2
    return value.to(x.dtype)


@rewrites(aten.searchsorted.Tensor)
def _searchsorted(
    ordered: torch.Tensor,
    x: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """How many elements are below each value (from the right: not above it)."""
    if sorter is not None:
        ordered = ordered.gather(-1, sorter)
    rows, values = _comparable(ordered).unsqueeze(-2), _comparable(x).unsqueeze(-1)
    if ordered.ndim == 1:
        rows = rows.reshape([1] * x.ndim + [ordered.shape[0]])
    before = ~(rows > values) if right or side == "right" else ~(rows >= values)
    kind = torch.int32 if out_int32 else torch.int64
    return before.to(kind).sum(-1).to(kind)
