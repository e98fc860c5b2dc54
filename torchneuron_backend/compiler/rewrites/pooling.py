"""Pooling of planes and volumes: windows as strided slices, gradients as sums over recorded positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .registry import aten, rewrites
from .shapes import spread

Numbers = Sequence[int] | int
"""One number for every pooled dimension, or one for all."""


def _each(value: Numbers, dims: int) -> list[int]:
    numbers = [value] if isinstance(value, int) else list(value)
    return numbers * dims if len(numbers) == 1 else numbers


@dataclass(frozen=True)
class _Windows:
    """Where the windows lie along each pooled dimension, which are the last ones.

    Attributes:
        sizes: of the tensor.
        before, after: how many places the first and the last windows may reach beyond the elements.
        counts: how many windows there are.
    """

    sizes: list[int]
    kernel: list[int]
    stride: list[int]
    dilation: list[int]
    before: list[int]
    after: list[int]
    counts: list[int]

    def padded(self, x: torch.Tensor, value: float = 0) -> torch.Tensor:
        """``x`` with ``value`` where windows reach beyond it."""
        return aten.constant_pad_nd(x, _padding(self.before, self.after), value)

    def pieces(self, padded: torch.Tensor) -> Iterator[tuple[list[int], torch.Tensor]]:
        """For each place in the window, its offset and the elements that stand there in all windows."""
        first = padded.ndim - len(self.sizes)
        for place in itertools.product(*map(range, self.kernel)):
            offset = [at * d for at, d in zip(place, self.dilation, strict=True)]
            piece = padded
            each = zip(offset, self.stride, self.counts, strict=True)
            for dim, (at, step, count) in enumerate(each, first):
                piece = aten.slice(piece, dim, at, at + (count - 1) * step + 1, step)
            yield offset, piece

    def total(self, padded: torch.Tensor) -> torch.Tensor:
        """The sum over each window."""
        pieces = [piece for _, piece in self.pieces(padded)]
        return sum(pieces[1:], pieces[0])


def _windows(
    x: torch.Tensor,
    dims: int,
    kernel: Numbers,
    stride: Numbers,
    padding: Numbers,
    ceil_mode: bool,
    dilation: Numbers = 1,
) -> _Windows:
    """As an operator's arguments describe them; no stride is the size of the window."""
    sizes, kernel, before = list(x.shape[-dims:]), _each(kernel, dims), _each(padding, dims)
    stride, dilation = _each(stride, dims) or kernel, _each(dilation, dims)
    counts, after = [], []
    for size, k, s, p, d in zip(sizes, kernel, stride, before, dilation, strict=True):
        count = _pooled(size, k, s, p, d, ceil_mode)
        counts.append(count)
        after.append(max(p, (count - 1) * s + (k - 1) * d + 1 - size - p))
    return _Windows(sizes, kernel, stride, dilation, before, after, counts)


def _pooled(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    reach = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-reach // stride) if ceil_mode else reach // stride) + 1
    # The last window must start inside the input or its left padding.
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def _padding(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """As constant_pad_nd takes it: last dimension first."""
    return [each for pair in zip(reversed(before), reversed(after), strict=True) for each in pair]


# Maxima


def _max_pool(
    dims: int,
    x: torch.Tensor,
    kernel: Numbers,
    stride: Numbers = (),
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The maximum over each window and its position among the flat pooled dimensions: one comparison per
    place in the window.
    """
    windows = _windows(x, dims, kernel, stride, padding, ceil_mode, dilation)
    lowest = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    each = zip(windows.counts, windows.stride, windows.before, strict=True)
    starts = [torch.arange(count) * step - before for count, step, before in each]
    best = where = None
    for offset, value in windows.pieces(windows.padded(x, lowest)):
        place: torch.Tensor = starts[0] + offset[0]
        for start, at, size in zip(starts[1:], offset[1:], windows.sizes[1:], strict=True):
            place = place.unsqueeze(-1) * size + (start + at)
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


@rewrites(aten.max_pool2d_with_indices.default)
def _max_pool2d(x: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _max_pool(2, x, *args, **kwargs)


@rewrites(aten.max_pool3d_with_indices.default)
def _max_pool3d(x: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _max_pool(3, x, *args, **kwargs)


@rewrites(aten.max_pool2d_with_indices_backward.default)
def _max_pool2d_backward(grad: torch.Tensor, x: torch.Tensor, *args: Any) -> torch.Tensor:
    indices = args[-1]
    planes = x.numel() // max(1, x.shape[-1] * x.shape[-2])
    flat = grad.new_zeros((planes, x.shape[-1] * x.shape[-2]))
    return flat.scatter_add(1, indices.reshape(planes, -1), grad.reshape(planes, -1)).reshape(x.shape)


def _to_positions(dims: int, grad: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Sum gradients, in float32, at positions in the flat last ``dims`` dimensions."""
    volume = math.prod(x.shape[x.ndim - dims :])
    planes = x.numel() // max(1, volume)
    total = torch.zeros([planes, volume]).scatter_add(
        1, indices.reshape(planes, -1), grad.reshape(planes, -1).float()
    )
    return total.reshape(x.shape).to(grad.dtype)


@rewrites(aten.adaptive_max_pool2d_backward.default, aten.fractional_max_pool2d_backward.default)
def _to_positions_2d(grad: torch.Tensor, x: torch.Tensor, *args: Any) -> torch.Tensor:
    return _to_positions(2, grad, x, args[-1])


@rewrites(
    aten.max_pool3d_with_indices_backward.default,
    aten.adaptive_max_pool3d_backward.default,
    aten.fractional_max_pool3d_backward.default,
)
def _to_positions_3d(grad: torch.Tensor, x: torch.Tensor, *args: Any) -> torch.Tensor:
    return _to_positions(3, grad, x, args[-1])


# Averages


def _divisor(windows: _Windows, include_padding: bool, override: int | None) -> Any:
    """What each window's sum is divided by; what ceil mode adds beyond the padding never counts."""
    if override:
        return override
    border = _padding(windows.before, windows.before)
    ones = aten.constant_pad_nd(torch.ones(windows.sizes), border, float(include_padding))
    more = [after - before for after, before in zip(windows.after, windows.before, strict=True)]
    return windows.total(aten.constant_pad_nd(ones, _padding([0] * len(more), more)))


def _avg_pool(
    dims: int,
    x: torch.Tensor,
    kernel: Numbers,
    stride: Numbers = (),
    padding: Numbers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> torch.Tensor:
    windows = _windows(x, dims, kernel, stride, padding, ceil_mode)
    number = _divisor(windows, count_include_pad, divisor_override)
    if x.dtype.is_floating_point:
        return (windows.total(windows.padded(x.float())) / number).to(x.dtype)
    whole = number.to(x.dtype) if isinstance(number, torch.Tensor) else number
    return torch.div(windows.total(windows.padded(x)), whole, rounding_mode="trunc")


@rewrites(aten.avg_pool2d.default)
def _avg_pool2d(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    return _avg_pool(2, x, *args, **kwargs) if x.dtype.is_floating_point else NotImplemented


@rewrites(aten.avg_pool3d.default)
def _avg_pool3d(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return _avg_pool(3, x, *args, **kwargs)


def _avg_pool_backward(
    dims: int,
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: Numbers,
    stride: Numbers,
    padding: Numbers,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> torch.Tensor:
    windows = _windows(x, dims, kernel, stride, padding, ceil_mode)
    result = grad.float() / _divisor(windows, count_include_pad, divisor_override)
    # A sum over windows is one sum per dimension, and so is its way back.
    for dim, size in enumerate(windows.sizes):
        at, before = x.ndim - dims + dim, windows.before[dim]
        whole = before + size + windows.after[dim]
        pieces = [spread(result, whole, at, step, windows.stride[dim]) for step in range(windows.kernel[dim])]
        result = sum(pieces[1:], pieces[0]).narrow(at, before, size)
    return result.to(x.dtype).contiguous()


@rewrites(aten.avg_pool2d_backward.default)
def _avg_pool2d_backward(grad: torch.Tensor, x: torch.Tensor, *args: Any) -> torch.Tensor:
    return _avg_pool_backward(2, grad, x, *args)


@rewrites(aten.avg_pool3d_backward.default)
def _avg_pool3d_backward(grad: torch.Tensor, x: torch.Tensor, *args: Any) -> torch.Tensor:
    return _avg_pool_backward(3, grad, x, *args)
