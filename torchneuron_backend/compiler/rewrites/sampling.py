"""Sampling at the places of a grid: over volumes, and the gradients over planes and volumes.

Conventions of ATen/native/GridSampler.h: an element's neighbours are the corners of the cell around it, and
for cubic sampling of a plane the four by four elements around that, by the weights of ATen/native/UpSample.h.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .registry import aten, rewrites

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2
_SHARPNESS = -0.75  # of the cubic convolution


@dataclass(frozen=True)
class _Corner:
    """Flat positions (safe ones), weights that are zero outside, and per dimension the weight's slope."""

    place: torch.Tensor
    weight: torch.Tensor
    slopes: list[torch.Tensor]


def _in_elements(x: torch.Tensor, size: int, align_corners: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The grid's coordinate in elements, and its slope."""
    if align_corners:
        return (x + 1.0) / 2.0 * (size - 1), torch.full_like(x, (size - 1) / 2.0)
    return ((x + 1.0) * size - 1.0) / 2.0, torch.full_like(x, size / 2.0)


def _padded(
    place: torch.Tensor, slope: torch.Tensor, size: int, padding: int, align_corners: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where a coordinate in elements ends up by the padding, and its slope there."""
    if padding == _REFLECTION:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return torch.zeros_like(place), torch.zeros_like(slope)
        away = place - low
        slope = torch.where(away < 0, -slope, slope)
        flips = (away.abs() / span).floor()
        rest = away.abs() - flips * span
        odd = torch.fmod(flips, 2.0) != 0
        place = torch.where(odd, span - rest, rest) + low
        slope = torch.where(odd, -slope, slope)
    if padding != _ZEROS:
        slope = torch.where((place <= 0) | (place >= size - 1), torch.zeros_like(slope), slope)
        place = place.clamp(0.0, float(size - 1))
    return place, slope


def _corners(
    grid: torch.Tensor, sizes: list[int], mode: int, padding: int, align_corners: bool
) -> Iterator[_Corner]:
    """``sizes`` as the input has them; the grid's last dimension counts from the input's last."""
    count = len(sizes)
    along = [
        _in_elements(grid[..., count - 1 - dim].float(), size, align_corners)
        for dim, size in enumerate(sizes)
    ]
    if mode == _BICUBIC:
        yield from _cubic_taps(along, sizes, padding, align_corners)
        return
    axes = [_padded(*each, size, padding, align_corners) for each, size in zip(along, sizes, strict=True)]
    for bits in itertools.product((0, 1), repeat=count if mode == _BILINEAR else 0):
        yield _corner(axes, sizes, bits)


def _corner(
    axes: list[tuple[torch.Tensor, torch.Tensor]], sizes: list[int], bits: tuple[int, ...]
) -> _Corner:
    inside = torch.ones_like(axes[0][0], dtype=torch.bool)
    place = torch.zeros_like(axes[0][0], dtype=torch.int64)
    parts, signs = [], []
    for dim, ((at, slope), size) in enumerate(zip(axes, sizes, strict=True)):
        # Without corners (nearest), the element that the coordinate rounds to.
        whole = at.floor() + bits[dim] if bits else at.round()
        inside = inside & (whole >= 0) & (whole <= size - 1)
        place = place * size + whole.clamp(0.0, float(size - 1)).to(torch.int64)
        part = at - at.floor()
        near = (part if bits[dim] else 1.0 - part) if bits else torch.ones_like(at)
        parts.append(near)
        signs.append((slope if bits[dim] else -slope) if bits else torch.zeros_like(slope))
    weight = _product(parts)
    slopes = [
        _product([signs[dim] if each == dim else part for each, part in enumerate(parts)])
        for dim in range(len(parts))
    ]
    none = torch.zeros_like(weight)
    return _Corner(
        place, torch.where(inside, weight, none), [torch.where(inside, slope, none) for slope in slopes]
    )


@dataclass(frozen=True)
class _Tap:
    """Of one dimension: a safe index, whether it is inside, the weight and its slope."""

    index: torch.Tensor
    inside: torch.Tensor
    weight: torch.Tensor
    slope: torch.Tensor


def _cubic_taps(
    axes: list[tuple[torch.Tensor, torch.Tensor]], sizes: list[int], padding: int, align_corners: bool
) -> Iterator[_Corner]:
    """Padding is applied to the elements that are read, and not to the coordinate."""
    dims = [_cubic(*axis, size, padding, align_corners) for axis, size in zip(axes, sizes, strict=True)]
    for y, x in itertools.product(*dims):
        inside = y.inside & x.inside
        none = torch.zeros_like(y.weight)
        yield _Corner(
            y.index * sizes[1] + x.index,
            torch.where(inside, y.weight * x.weight, none),
            [
                torch.where(inside, y.slope * x.weight, none),
                torch.where(inside, y.weight * x.slope, none),
            ],
        )


def _cubic(at: torch.Tensor, slope: torch.Tensor, size: int, padding: int, align_corners: bool) -> list[_Tap]:
    """The four elements around a coordinate."""
    a, first, taps = _SHARPNESS, at.floor(), []
    part = at - first
    for offset in (-1, 0, 1, 2):
        away = (part - offset).abs()
        sign = 1.0 if offset <= 0 else -1.0  # of the distance's slope
        if offset in (0, 1):
            weight = ((a + 2.0) * away - (a + 3.0)) * away * away + 1.0
            steep = (3.0 * (a + 2.0) * away - 2.0 * (a + 3.0)) * away
        else:
            weight = ((a * away - 5.0 * a) * away + 8.0 * a) * away - 4.0 * a
            steep = (3.0 * a * away - 10.0 * a) * away + 8.0 * a
        index, _ = _padded(first + offset, slope, size, padding, align_corners)
        inside = (index >= 0) & (index <= size - 1)
        safe = index.clamp(0.0, float(size - 1)).to(torch.int64)
        taps.append(_Tap(safe, inside, weight, sign * steep * slope))
    return taps


def _product(factors: list[torch.Tensor]) -> torch.Tensor:
    return math.prod(factors[1:], start=factors[0])


def _read(x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """[batch, channels, places] of a volume made flat, at [batch, ...] places."""
    batch, channels = x.shape[:2]
    index = place.reshape(batch, 1, -1).expand(batch, channels, -1)
    return x.reshape(batch, channels, -1).gather(2, index.clone())


@rewrites(aten.grid_sampler_3d.default)
def _grid_sampler_3d(
    x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool
) -> Any:
    if mode not in (_BILINEAR, _NEAREST):
        return NotImplemented
    batch, channels = x.shape[:2]
    total = torch.zeros([batch, channels, math.prod(grid.shape[1:-1])])
    for corner in _corners(grid, list(x.shape[2:]), mode, padding, align_corners):
        total = total + _read(x.float(), corner.place) * corner.weight.reshape(batch, 1, -1)
    return total.reshape([batch, channels, *grid.shape[1:-1]]).to(x.dtype)


@rewrites(aten.grid_sampler_2d_backward.default, aten.grid_sampler_3d_backward.default)
def _grid_sampler_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    grid: torch.Tensor,
    mode: int,
    padding: int,
    align_corners: bool,
    output_mask: list[bool],
) -> Any:
    if mode not in (_BILINEAR, _NEAREST, _BICUBIC):
        return NotImplemented
    batch, channels = x.shape[:2]
    sizes = list(x.shape[2:])
    flat_grad = grad.float().reshape(batch, channels, -1)
    to_input = torch.zeros([batch, channels, math.prod(sizes)])
    to_grid = [torch.zeros([batch, flat_grad.shape[-1]]) for _ in sizes]
    for corner in _corners(grid, sizes, mode, padding, align_corners):
        index = corner.place.reshape(batch, 1, -1).expand(flat_grad.shape).clone()
        if output_mask[0]:
            to_input = to_input.scatter_add(2, index, flat_grad * corner.weight.reshape(batch, 1, -1))
        along = (flat_grad * _read(x.float(), corner.place)).sum(1)
        to_grid = [
            total + along * slope.reshape(batch, -1)
            for total, slope in zip(to_grid, corner.slopes, strict=True)
        ]
    grad_grid = torch.stack(to_grid[::-1], -1).reshape(grid.shape).to(grid.dtype)
    return (to_input.reshape(x.shape).to(x.dtype) if output_mask[0] else None), grad_grid
