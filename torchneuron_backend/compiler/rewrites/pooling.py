"""Pooling: windows as strided slices, gradients as sums over recorded positions."""

from __future__ import annotations

from typing import Any

import torch

from .registry import aten, rewrites


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
    """The maximum over each window and where in the plane it was, one comparison per element of the window."""
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
            value = padded[..., top : top + (out_h - 1) * sh + 1 : sh, left : left + (out_w - 1) * sw + 1 : sw]
            position = ((rows + top) * width + columns + left).expand(value.shape)
            if best is None or where is None:
                best, where = value, position
                continue
            better = value > best
            if x.dtype.is_floating_point:
                better = better | value.isnan()
            best, where = torch.where(better, value, best), torch.where(better, position, where)
    assert best is not None and where is not None
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
    if ceil_mode or not x.dtype.is_floating_point:
        return NotImplemented
    (kh, kw), (ph, pw) = _pair(kernel), _pair(padding)
    sh, sw = _pair(stride, [kh, kw])
    total = _window_sum(aten.constant_pad_nd(x.float(), [pw, pw, ph, ph]), kh, kw, sh, sw)
    count: Any = divisor_override or kh * kw
    if not count_include_pad and not divisor_override:
        ones = torch.ones((1, *x.shape[-2:]))
        count = _window_sum(aten.constant_pad_nd(ones, [pw, pw, ph, ph]), kh, kw, sh, sw)
    return (total / count).to(x.dtype)


def _window_sum(x: torch.Tensor, kh: int, kw: int, sh: int, sw: int) -> torch.Tensor:
    height, width = ((x.shape[-2] - kh) // sh) * sh + 1, ((x.shape[-1] - kw) // sw) * sw + 1
    total = None
    for i in range(kh):
        for j in range(kw):
            piece = x[..., i : i + height : sh, j : j + width : sw]
            total = piece if total is None else total + piece
    assert total is not None
    return total


@rewrites(aten._adaptive_avg_pool2d_backward.default)
def _adaptive_avg_pool2d_backward(grad: torch.Tensor, x: torch.Tensor) -> Any:
    """Each gradient spread evenly over its window; windows of equal size only."""
    (height, width), (out_h, out_w) = x.shape[-2:], grad.shape[-2:]
    if not out_h or not out_w or height % out_h or width % out_w:
        return NotImplemented
    kh, kw = height // out_h, width // out_w
    lead = grad.shape[:-2]
    wide = (grad / (kh * kw)).reshape(*lead, out_h, 1, out_w, 1).expand(*lead, out_h, kh, out_w, kw)
    return wide.reshape(x.shape)
