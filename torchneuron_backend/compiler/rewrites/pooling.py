"""Pooling: windows as strided slices, gradients as sums over recorded positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .registry import aten, rewrites
from .shapes import spread


def _pair(value: list[int] | int, default: list[int] | None = None) -> list[int]:
    numbers = [value] if isinstance(value, int) else list(value)
    if not numbers:
        return list(default or [])
    return numbers * 2 if len(numbers) == 1 else numbers


@rewrites(aten.max_pool2d_with_indices.default)
def _max_pool2d(
    x: torch.Tensor,
    kernel: list[int],
    stride: list[int] = (),  # type: ignore[assignment]
    padding: list[int] | int = 0,
    dilation: list[int] | int = 1,
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The maximum over each window and where in the plane it was, one comparison per element of the
    window.
    """
    (kh, kw), (ph, pw), (dh, dw) = _pair(kernel), _pair(padding), _pair(dilation)
    sh, sw = _pair(stride, [kh, kw])
    height, width = x.shape[-2:]
    out_h = _pooled(height, kh, sh, ph, dh, ceil_mode)
    out_w = _pooled(width, kw, sw, pw, dw, ceil_mode)
    # Ceil mode may look beyond the right and lower border.
    more_h = max(0, (out_h - 1) * sh + (kh - 1) * dh + 1 - height - ph)
    more_w = max(0, (out_w - 1) * sw + (kw - 1) * dw + 1 - width - pw)
    lowest = -float("inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    padded = aten.constant_pad_nd(x, [pw, more_w, ph, more_h], lowest)
    rows = torch.arange(out_h).unsqueeze(1) * sh - ph
    columns = torch.arange(out_w) * sw - pw
    best = where = None
    for i in range(kh):
        for j in range(kw):
            top, left = i * dh, j * dw
            value = padded[
                ..., top : top + (out_h - 1) * sh + 1 : sh, left : left + (out_w - 1) * sw + 1 : sw
            ]
            position = ((rows + top) * width + columns + left).expand(value.shape)
            if best is None or where is None:
                best, where = value, position
                continue
            better = value > best
            if x.dtype.is_floating_point:
                better = better | value.isnan()
            best, where = torch.where(better, value, best), torch.where(better, position, where)
    assert best is not None
    assert where is not None
    return best.contiguous(), where.contiguous()


def _pooled(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    reach = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-reach // stride) if ceil_mode else reach // stride) + 1
    # The last window must start inside the input or its left padding.
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


@rewrites(aten.max_pool2d_with_indices_backward.default)
def _max_pool2d_backward(grad: torch.Tensor, x: torch.Tensor, *args: Any) -> torch.Tensor:
    indices = args[-1]
    planes = x.numel() // max(1, x.shape[-1] * x.shape[-2])
    flat = grad.new_zeros((planes, x.shape[-1] * x.shape[-2]))
    return flat.scatter_add(1, indices.reshape(planes, -1), grad.reshape(planes, -1)).reshape(x.shape)


@dataclass(frozen=True)
class _Windows:
    """Where the windows of an average pooling lie: kernel, stride, left border, and border on the far
    side.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    border: tuple[int, int]
    beyond: tuple[int, int]
    counts: tuple[int, int]

    @property
    def padding(self) -> list[int]:
        return [self.border[1], self.beyond[1], self.border[0], self.beyond[0]]

    def total(self, padded: torch.Tensor) -> torch.Tensor:
        """The sum over each window of an already padded plane."""
        (sh, sw), (height, width) = self.stride, self.counts
        total = None
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                piece = padded[..., i : i + (height - 1) * sh + 1 : sh, j : j + (width - 1) * sw + 1 : sw]
                total = piece if total is None else total + piece
        assert total is not None
        return total


def _average_windows(
    x: torch.Tensor, kernel: list[int], stride: list[int], padding: list[int] | int, ceil_mode: bool
) -> _Windows:
    (kh, kw), (ph, pw) = _pair(kernel), _pair(padding)
    sh, sw = _pair(stride, [kh, kw])
    height, width = x.shape[-2:]
    rows, columns = _pooled(height, kh, sh, ph, 1, ceil_mode), _pooled(width, kw, sw, pw, 1, ceil_mode)
    below = max(ph, (rows - 1) * sh + kh - height - ph)
    right = max(pw, (columns - 1) * sw + kw - width - pw)
    return _Windows((kh, kw), (sh, sw), (ph, pw), (below, right), (rows, columns))


def _divisor(x: torch.Tensor, windows: _Windows, include_padding: bool, override: int | None) -> Any:
    """Elements per window; what ceil mode adds beyond the padding never counts."""
    if override:
        return override
    ones = torch.ones((1, *x.shape[-2:]))
    (ph, pw), (below, right) = windows.border, windows.beyond
    if include_padding:
        ones = aten.constant_pad_nd(ones, [pw, pw, ph, ph], 1)
        return windows.total(aten.constant_pad_nd(ones, [0, right - pw, 0, below - ph]))
    return windows.total(aten.constant_pad_nd(ones, windows.padding))


@rewrites(aten.avg_pool2d.default)
def _avg_pool2d(
    x: torch.Tensor,
    kernel: list[int],
    stride: list[int] = (),  # type: ignore[assignment]
    padding: list[int] | int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    if not x.dtype.is_floating_point:
        return NotImplemented
    windows = _average_windows(x, kernel, stride, padding, ceil_mode)
    total = windows.total(aten.constant_pad_nd(x.float(), windows.padding))
    return (total / _divisor(x, windows, count_include_pad, divisor_override)).to(x.dtype)


@rewrites(aten.avg_pool2d_backward.default)
def _avg_pool2d_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int] | int,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> torch.Tensor:
    windows = _average_windows(x, kernel, stride, padding, ceil_mode)
    share = grad.float() / _divisor(x, windows, count_include_pad, divisor_override)
    (height, width), (ph, pw) = x.shape[-2:], windows.border
    tall, wide = height + ph + windows.beyond[0], width + pw + windows.beyond[1]
    total = None
    for i in range(windows.kernel[0]):
        rows = spread(share, tall, share.ndim - 2, i, windows.stride[0])
        for j in range(windows.kernel[1]):
            piece = spread(rows, wide, share.ndim - 1, j, windows.stride[1])
            total = piece if total is None else total + piece
    assert total is not None
    return total[..., ph : ph + height, pw : pw + width].to(x.dtype)


@rewrites(aten._adaptive_avg_pool2d_backward.default)
def _adaptive_avg_pool2d_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The pooling is linear in rows and in columns, and so is its gradient: one matrix for each."""
    rows, columns = _shares(x.shape[-2], grad.shape[-2]), _shares(x.shape[-1], grad.shape[-1])
    return (rows.transpose(0, 1) @ grad.float() @ columns).to(x.dtype)


def _shares(size: int, count: int) -> torch.Tensor:
    """[count, size]: what each element contributes to each adaptive window's mean."""
    window, place = torch.arange(count).unsqueeze(1), torch.arange(size)
    first = (window * size) // count
    behind = ((window + 1) * size + count - 1) // count
    inside = (place >= first) & (place < behind)
    return inside.float() / (behind - first).float()
