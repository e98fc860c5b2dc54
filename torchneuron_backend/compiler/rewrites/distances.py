"""Distances between all pairs of rows, row i with each later row j, and their gradient."""

from __future__ import annotations

import math

import torch

from .registry import aten, rewrites


def _pairs(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = [(i, j) for i in range(rows) for j in range(i + 1, rows)]
    return torch.tensor([i for i, _ in pairs]), torch.tensor([j for _, j in pairs])


@rewrites(aten._pdist_forward.default)
def _pdist(x: torch.Tensor, p: float = 2) -> torch.Tensor:
    if x.shape[0] < 2:
        return x.new_zeros([0])
    first, second = _pairs(x.shape[0])
    size = (x.index_select(0, first) - x.index_select(0, second)).abs()
    if p == 0:
        return (size != 0).to(x.dtype).sum(1)
    if p == math.inf:
        return size.amax(1)
    if p == 1:
        return size.sum(1)
    return torch.sqrt((size * size).sum(1)) if p == 2 else torch.pow(torch.pow(size, p).sum(1), 1.0 / p)


@rewrites(aten._pdist_backward.default)
def _pdist_backward(grad: torch.Tensor, x: torch.Tensor, p: float, distances: torch.Tensor) -> torch.Tensor:
    """Of each pair: grad * sign(d) * (|d| / distance)^(p - 1), towards the first and from the second."""
    if x.shape[0] < 2 or p == 0:
        return torch.zeros_like(x, memory_format=torch.contiguous_format)
    first, second = _pairs(x.shape[0])
    between = x.index_select(0, first) - x.index_select(0, second)
    total, outer = distances.unsqueeze(1), grad.unsqueeze(1)
    safe = torch.where(total == 0, torch.ones_like(total), total)
    if p == math.inf:
        slope = torch.sign(between) * (between.abs() == total).to(x.dtype)
    elif p == 1:
        slope = torch.sign(between)
    elif p == 2:
        slope = between / safe
    else:
        power = torch.pow((between.abs() / safe), p - 1.0)
        slope = torch.where(between == 0, torch.zeros_like(power), torch.sign(between) * power)
    push = torch.where(total == 0, torch.zeros_like(slope), slope) * outer
    return torch.zeros_like(x).index_add(0, first, push).index_add(0, second, -push)
