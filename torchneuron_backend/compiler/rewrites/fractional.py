"""Max pooling over windows of a fixed size at drawn places (B. Graham, "Fractional max-pooling", 2014)."""

from __future__ import annotations

import math
from typing import Any

import torch

from .registry import aten, rewrites


def _starts(sample: torch.Tensor, size: int, count: int, window: int) -> torch.Tensor:
    """[..., count]: where windows begin; about evenly spaced from the first element to the last window."""
    if count == 1:
        return torch.full([*sample.shape, 1], size - window, dtype=torch.int64)
    step = (size - window) / (count - 1)
    places = torch.arange(count - 1).to(sample.dtype)
    begins = torch.trunc((places + sample.unsqueeze(-1)) * step) - torch.trunc(sample.unsqueeze(-1) * step)
    last = torch.full([*sample.shape, 1], size - window, dtype=torch.int64)
    return torch.cat([begins.to(torch.int64), last], -1)


def _pool(
    x: torch.Tensor, windows: list[int], counts: list[int], samples: list[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """``samples`` has one number of [batch, channels] for each of the pooled dimensions, in their order."""
    dims = len(windows)
    sizes = list(x.shape[-dims:])
    place: Any = torch.zeros([], dtype=torch.int64)
    for dim, (window, count, sample) in enumerate(zip(windows, counts, samples, strict=True)):
        start = _starts(sample, sizes[dim], count, window)
        shape = [1] * (2 * dims)
        shape[dim] = count
        within = [1] * (2 * dims)
        within[dims + dim] = window
        at = start.reshape([*start.shape[:-1], *shape]) + torch.arange(window).reshape(within)
        place = place * sizes[dim] + at
    lead = samples[0].shape
    place = place.expand([*lead, *counts, *windows]).reshape([*lead, math.prod(counts), math.prod(windows)])
    flat = x.reshape([*lead, 1, -1]).expand([*lead, math.prod(counts), -1])
    values, where = torch.max(flat.gather(-1, place), -1)
    index = place.gather(-1, where.unsqueeze(-1)).squeeze(-1)
    shape = [*x.shape[:-dims], *counts]
    return values.reshape(shape), index.reshape(shape)


@rewrites(aten.fractional_max_pool2d.default)
def _fractional_2d(x: torch.Tensor, windows: list[int], counts: list[int], samples: torch.Tensor) -> Any:
    lead = samples if x.ndim == 4 else samples.reshape(samples.shape[-2:])
    return _pool(x, windows, counts, [lead[..., 1], lead[..., 0]])


@rewrites(aten.fractional_max_pool3d.default)
def _fractional_3d(x: torch.Tensor, windows: list[int], counts: list[int], samples: torch.Tensor) -> Any:
    lead = samples if x.ndim == 5 else samples.reshape(samples.shape[-2:])
    return _pool(x, windows, counts, [lead[..., 0], lead[..., 1], lead[..., 2]])
