"""Adaptive pooling: windows of differing sizes that divide the elements among a given number of results."""

from __future__ import annotations

import math

import torch

from .registry import aten, rewrites


@rewrites(aten.adaptive_max_pool3d.default)
def _adaptive_max_pool3d(x: torch.Tensor, counts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Maxima, one dimension after the other, with positions in the flat volume."""
    sizes = list(x.shape[-3:])
    value, place = x, torch.arange(math.prod(sizes)).reshape(sizes).expand(x.shape)
    # The last dimension first: among equals the first position in memory order counts.
    for dim in (x.ndim - 1, x.ndim - 2, x.ndim - 3):
        size, count = x.shape[dim], counts[dim - x.ndim + 3]
        values, places = [], []
        for window in range(count):
            first, behind = window * size // count, -(-(window + 1) * size // count)
            best, where = value.narrow(dim, first, 1), place.narrow(dim, first, 1)
            for at in range(first + 1, behind):
                other = value.narrow(dim, at, 1)
                better = (other > best) | other.isnan()
                best = torch.where(better, other, best)
                where = torch.where(better, place.narrow(dim, at, 1), where)
            values.append(best)
            places.append(where)
        value, place = torch.cat(values, dim), torch.cat(places, dim)
    return value.contiguous(), place.contiguous()


def _shares(size: int, count: int) -> torch.Tensor:
    """[count, size]: what each element contributes to each window's mean."""
    window, place = torch.arange(count).unsqueeze(1), torch.arange(size)
    first = (window * size) // count
    behind = ((window + 1) * size + count - 1) // count
    inside = (place >= first) & (place < behind)
    return inside.float() / (behind - first).float()


@rewrites(aten._adaptive_avg_pool3d.default)
def _adaptive_avg_pool3d(x: torch.Tensor, counts: list[int]) -> torch.Tensor:
    """The pooling is linear in each dimension: one matrix for each."""
    result = x.float()
    for dim, count in enumerate(counts, start=x.ndim - 3):
        result = (result.movedim(dim, -1) @ _shares(x.shape[dim], count).transpose(0, 1)).movedim(-1, dim)
    return result.to(x.dtype).contiguous()


@rewrites(aten._adaptive_avg_pool2d_backward.default)
def _adaptive_avg_pool2d_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return _adaptive_avg_pool_backward(2, grad, x)


@rewrites(aten._adaptive_avg_pool3d_backward.default)
def _adaptive_avg_pool3d_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return _adaptive_avg_pool_backward(3, grad, x)


def _adaptive_avg_pool_backward(dims: int, grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    result = grad.float()
    for dim in range(x.ndim - dims, x.ndim):
        result = (result.movedim(dim, -1) @ _shares(x.shape[dim], grad.shape[dim])).movedim(-1, dim)
    return result.to(x.dtype).contiguous()
