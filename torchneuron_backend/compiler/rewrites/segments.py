"""Reductions over segments of the rows, each segment compared with each row."""

from __future__ import annotations

import math
from typing import Any

import torch

from .registry import aten, rewrites


def _members(
    rows: int, lengths: torch.Tensor | None, offsets: torch.Tensor | None, axis: int
) -> torch.Tensor | None:
    """Whether a row [..., 1, rows] is in a segment [..., segments, 1]; None without lengths or offsets."""
    if lengths is not None:
        ends = lengths.to(torch.int64).cumsum(axis)
        starts = ends - lengths.to(torch.int64)
    elif offsets is not None:
        count = offsets.shape[axis] - 1
        starts = offsets.to(torch.int64).narrow(axis, 0, count)
        ends = offsets.to(torch.int64).narrow(axis, 1, count)
    else:
        return None
    places = torch.arange(rows)
    return (places >= starts.unsqueeze(-1)) & (places < ends.unsqueeze(-1))


_NEUTRAL = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}


def _reduce(values: torch.Tensor, reduce: str, dim: int) -> torch.Tensor:
    if reduce == "max":
        return values.amax(dim)
    if reduce == "min":
        return values.amin(dim)
    return values.prod(dim) if reduce == "prod" else values.sum(dim)


def _counts(member: torch.Tensor, inner: int) -> torch.Tensor:
    counts = member.to(torch.float32).sum(-1)
    return counts.reshape([*counts.shape, *[1] * inner])


@rewrites(aten.segment_reduce.default)
def _segment_reduce(
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    axis %= data.ndim
    member = _members(data.shape[axis], lengths, offsets, axis)
    if member is None or indices is not None:
        return NotImplemented
    inner = data.ndim - axis - 1
    wide = member.reshape([*member.shape, *[1] * inner])
    start = _NEUTRAL[reduce] if initial is None else float(initial)
    chosen = torch.where(wide, data.float().unsqueeze(axis), torch.full([], _NEUTRAL[reduce]))
    result = _reduce(chosen, reduce, axis + 1)
    if reduce in ("sum", "mean"):
        result = result + start
    elif reduce == "prod":
        result = result * start
    else:
        limit = torch.full_like(result, start)
        result = torch.maximum(result, limit) if reduce == "max" else torch.minimum(result, limit)
    if reduce == "mean":
        counts = _counts(member, inner)
        blank = torch.full_like(result, math.nan if initial is None else start)
        result = torch.where(counts > 0, result / counts.clamp(min=1.0), blank)
    return result.to(data.dtype)


def _other_factors(rows: torch.Tensor, member: torch.Tensor, start: float, dim: int) -> torch.Tensor:
    """The product of a segment's other rows: what is zero or no number is counted, not divided by."""
    zero, nan = member & (rows == 0), member & rows.isnan()
    rest = torch.where(member & ~zero & ~nan, rows, torch.ones([]))
    product = start * rest.prod(dim, keepdim=True) / rest
    other_zeros = zero.float().sum(dim, keepdim=True) - zero.float()
    other_nans = nan.float().sum(dim, keepdim=True) - nan.float()
    product = torch.where(other_zeros > 0, torch.zeros_like(product), product)
    return torch.where(other_nans > 0, torch.full_like(product, math.nan), product)


@rewrites(aten._segment_reduce_backward.default)
def _segment_reduce_backward(
    grad: torch.Tensor,
    output: torch.Tensor,
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Any:
    """To each row of a segment its share; an extreme is shared by the rows that have it."""
    axis %= data.ndim
    member = _members(data.shape[axis], lengths, offsets, axis)
    if member is None:
        return NotImplemented
    inner = data.ndim - axis - 1
    wide = member.reshape([*member.shape, *[1] * inner])
    share = grad.float()
    if reduce == "prod":
        start = 1.0 if initial is None else float(initial)
        spread = share.unsqueeze(axis + 1) * _other_factors(
            data.float().unsqueeze(axis), wide, start, axis + 1
        )
        return torch.where(wide, spread, torch.zeros([])).sum(axis).to(data.dtype)
    if reduce == "mean":
        share = share / _counts(member, inner).clamp(min=1.0)
    picked = wide.expand([*wide.shape[: axis + 2], *data.shape[axis + 1 :]])
    if reduce in ("max", "min"):
        extreme = output.unsqueeze(axis + 1)
        rows = data.unsqueeze(axis)
        picked = picked & ((rows == extreme) | (rows.isnan() & extreme.isnan()))
        share = share / picked.to(torch.float32).sum(axis + 1).clamp(min=1.0)
    spread = torch.where(picked, share.unsqueeze(axis + 1), torch.zeros([]))
    return spread.sum(axis).to(data.dtype)
