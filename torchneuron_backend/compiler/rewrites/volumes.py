"""Pooling over three dimensions, adaptive maxima, and what goes back through recorded positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .pooling import _pooled, _shares
from .registry import aten, rewrites
from .shapes import spread


def _three(value: Sequence[int] | int, default: Sequence[int] = ()) -> list[int]:
    numbers = [value] if isinstance(value, int) else list(value)
    numbers = numbers or list(default)
    return numbers * 3 if len(numbers) == 1 else numbers


def _beyond(sizes: list[int], counts: list[int], kernel: list[int], stride: list[int], pad: list[int],
            dilation: list[int]) -> list[int]:  # fmt: skip
    """How far the last windows reach behind the elements."""
    each = zip(sizes, counts, kernel, stride, pad, dilation, strict=True)
    return [max(p, (count - 1) * s + (k - 1) * d + 1 - size - p) for size, count, k, s, p, d in each]


def _padding(before: list[int], after: list[int]) -> list[int]:
    """As constant_pad_nd takes it: last dimension first."""
    return [each for pair in zip(reversed(before), reversed(after), strict=True) for each in pair]


def _pieces(
    padded: torch.Tensor, kernel: list[int], stride: list[int], dilation: list[int], counts: list[int]
) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """For each place in the window, its offset and the elements that stand there in all windows."""
    for place in itertools.product(*map(range, kernel)):
        piece = padded
        first = padded.ndim - 3
        for dim, (at, s, d, count) in enumerate(zip(place, stride, dilation, counts, strict=True)):
            piece = aten.slice(piece, first + dim, at * d, at * d + (count - 1) * s + 1, s)
        yield tuple(at * d for at, d in zip(place, dilation, strict=True)), piece


@rewrites(aten.max_pool3d_with_indices.default)
def _max_pool3d(
    x: torch.Tensor,
    kernel: list[int],
    stride: Sequence[int] = (),
    padding: list[int] | int = 0,
    dilation: list[int] | int = 1,
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The maximum over each window and its position in the flat volume."""
    kernel, padding, dilation = _three(kernel), _three(padding), _three(dilation)
    stride, sizes = _three(stride, kernel), list(x.shape[-3:])
    each = zip(sizes, kernel, stride, padding, dilation, strict=True)
    counts = [_pooled(size, k, s, p, d, ceil_mode) for size, k, s, p, d in each]
    after = _beyond(sizes, counts, kernel, stride, padding, dilation)
    lowest = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    padded = aten.constant_pad_nd(x, _padding(padding, after), lowest)
    starts = [torch.arange(count) * s - p for count, s, p in zip(counts, stride, padding, strict=True)]
    best = where = None
    for offset, value in _pieces(padded, kernel, stride, dilation, counts):
        depth, row, column = (start + at for start, at in zip(starts, offset, strict=True))
        place = (depth.reshape(-1, 1, 1) * sizes[1] + row.reshape(-1, 1)) * sizes[2] + column
        place = place.expand(value.shape)
        if best is None or where is None:
            best, where = value, place
            continue
        better = value > best
        if x.dtype.is_floating_point:
            better = better | value.isnan()
        best, where = torch.where(better, value, best), torch.where(better, place, where)
    assert best is not None
    assert where is not None
    return best.contiguous(), where.contiguous()


def _to_positions(grad: torch.Tensor, x: torch.Tensor, indices: torch.Tensor, dims: int) -> torch.Tensor:
    """Sum gradients at positions in the flat last ``dims`` dimensions."""
    volume = math.prod(x.shape[x.ndim - dims :])
    planes = x.numel() // max(1, volume)
    total = torch.zeros([planes, volume]).scatter_add(
        1, indices.reshape(planes, -1), grad.reshape(planes, -1).float()
    )
    return total.reshape(x.shape).to(grad.dtype)


@rewrites(aten.max_pool3d_with_indices_backward.default, aten.fractional_max_pool3d_backward.default)
def _max_pool3d_backward(grad: torch.Tensor, x: torch.Tensor, *args: Any) -> torch.Tensor:
    return _to_positions(grad, x, args[-1], 3)


@rewrites(aten.adaptive_max_pool3d_backward.default)
def _adaptive_max_pool3d_backward(grad: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    return _to_positions(grad, x, indices, 3)


@rewrites(aten.adaptive_max_pool2d_backward.default)
def _adaptive_max_pool2d_backward(grad: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    return _to_positions(grad, x, indices, 2)


@rewrites(aten.fractional_max_pool2d_backward.default)
def _fractional_max_pool2d_backward(grad: torch.Tensor, x: torch.Tensor, *args: Any) -> torch.Tensor:
    return _to_positions(grad, x, args[-1], 2)


@rewrites(aten.adaptive_max_pool3d.default)
def _adaptive_max_pool3d(x: torch.Tensor, counts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Maxima over windows of differing sizes: one dimension after the other, with positions."""
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


@rewrites(aten._adaptive_avg_pool3d.default)
def _adaptive_avg_pool3d(x: torch.Tensor, counts: list[int]) -> torch.Tensor:
    result = x.float()
    for dim, count in enumerate(counts, start=x.ndim - 3):
        result = (result.movedim(dim, -1) @ _shares(x.shape[dim], count).transpose(0, 1)).movedim(-1, dim)
    return result.to(x.dtype).contiguous()


@rewrites(aten._adaptive_avg_pool3d_backward.default)
def _adaptive_avg_pool3d_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    result = grad.float()
    for dim in range(x.ndim - 3, x.ndim):
        result = (result.movedim(dim, -1) @ _shares(x.shape[dim], grad.shape[dim])).movedim(-1, dim)
    return result.to(x.dtype).contiguous()


def _average(
    sizes: list[int], kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool
) -> tuple[list[int], list[int]]:
    """Windows along each dimension, and how far they reach behind the elements."""
    each = zip(sizes, kernel, stride, padding, strict=True)
    counts = [_pooled(size, k, s, p, 1, ceil_mode) for size, k, s, p in each]
    return counts, _beyond(sizes, counts, kernel, stride, padding, [1, 1, 1])


def _total(padded: torch.Tensor, kernel: list[int], stride: list[int], counts: list[int]) -> torch.Tensor:
    pieces = [piece for _, piece in _pieces(padded, kernel, stride, [1, 1, 1], counts)]
    return sum(pieces[1:], pieces[0])


def _elements(
    sizes: list[int], kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool,
    include_padding: bool, override: int | None,
) -> Any:  # fmt: skip
    """What each window's sum is divided by; what ceil mode adds beyond the padding never counts."""
    if override:
        return override
    counts, after = _average(sizes, kernel, stride, padding, ceil_mode)
    ones = aten.constant_pad_nd(torch.ones(sizes), _padding(padding, padding), float(include_padding))
    more = [end - p for end, p in zip(after, padding, strict=True)]
    return _total(aten.constant_pad_nd(ones, _padding([0, 0, 0], more)), kernel, stride, counts)


@rewrites(aten.avg_pool3d.default)
def _avg_pool3d(
    x: torch.Tensor,
    kernel: list[int],
    stride: Sequence[int] = (),
    padding: list[int] | int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor:
    kernel, padding, sizes = _three(kernel), _three(padding), list(x.shape[-3:])
    stride = _three(stride, kernel)
    counts, after = _average(sizes, kernel, stride, padding, ceil_mode)
    kind = torch.float32 if x.dtype.is_floating_point else x.dtype
    total = _total(aten.constant_pad_nd(x.to(kind), _padding(padding, after)), kernel, stride, counts)
    number = _elements(sizes, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    if x.dtype.is_floating_point:
        return (total / number).to(x.dtype)
    whole = number.to(kind) if isinstance(number, torch.Tensor) else number
    return torch.div(total, whole, rounding_mode="trunc")


@rewrites(aten.avg_pool3d_backward.default)
def _avg_pool3d_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: list[int],
    stride: Sequence[int],
    padding: list[int] | int,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> torch.Tensor:
    kernel, padding, sizes = _three(kernel), _three(padding), list(x.shape[-3:])
    stride = _three(stride, kernel)
    _, after = _average(sizes, kernel, stride, padding, ceil_mode)
    number = _elements(sizes, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    result = grad.float() / number
    # A sum over windows is one sum per dimension, and so is its way back.
    for dim in range(3):
        at, size = x.ndim - 3 + dim, padding[dim] + sizes[dim] + after[dim]
        pieces = [spread(result, size, at, step, stride[dim]) for step in range(kernel[dim])]
        result = sum(pieces[1:], pieces[0]).narrow(at, padding[dim], sizes[dim])
    return result.to(x.dtype).contiguous()
