"""Gradients of convolutions, as convolutions: those that Torch-MLIR writes cover two dimensions without
groups only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .registry import aten, rewrites


@rewrites(aten.convolution_backward.default)
def _convolution_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    output_mask: list[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    stride, padding, dilation = (_each(value, x.ndim - 2) for value in (stride, padding, dilation))
    grad_x = grad_weight = grad_bias = None
    if output_mask[0]:
        grad_x = _grad_input(grad, x, weight, stride, padding, dilation, transposed, groups)
    if output_mask[1]:
        # A transposed convolution is the other's gradient: the two sides change places.
        wide, narrow = (grad, x) if transposed else (x, grad)
        grad_weight = _grad_weight(wide, narrow, weight.shape[2:], stride, padding, dilation, groups)
    if output_mask[2]:
        grad_bias = grad.sum([0, *range(2, grad.ndim)])
    return grad_x, grad_weight, grad_bias


def _each(value: Sequence[int], dimensions: int) -> list[int]:
    return list(value) * dimensions if len(value) == 1 else list(value)


def _grad_input(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    groups: int,
) -> torch.Tensor:
    if transposed:
        none = [0] * len(stride)
        result = aten.convolution(grad, weight, None, stride, padding, dilation, False, none, groups)
        return _crop(result, x.shape[2:])
    return _transposed(grad, weight, stride, padding, dilation, groups, x.shape[2:])


def _transposed(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    sizes: Sequence[int],
) -> torch.Tensor:
    """A transposed convolution cut to ``sizes``: in full, then without its border.

    Torch-MLIR mixes up the dimensions of an output padding, so none is asked for.
    """
    none = [0] * len(stride)
    result = aten.convolution(x, weight, None, stride, none, dilation, True, none, groups)
    for dim, (border, size) in enumerate(zip(padding, sizes, strict=True), start=2):
        short = border + size - result.shape[dim]
        if short > 0:
            result = aten.constant_pad_nd(result, [0, 0] * (result.ndim - dim - 1) + [0, short])
        result = result.narrow(dim, border, size)
    return result


@rewrites(aten.convolution.default)
def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Any:
    if not transposed or not any(output_padding):
        return NotImplemented
    count = x.ndim - 2
    stride, padding, dilation = (_each(value, count) for value in (stride, padding, dilation))
    sizes = [
        (x.shape[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight.shape[i + 2] - 1) + 1 + more
        for i, more in enumerate(_each(output_padding, count))
    ]
    result = _transposed(x, weight, stride, padding, dilation, groups, sizes)
    return result if bias is None else result + bias.reshape([-1, *[1] * count])


def _grad_weight(
    wide: torch.Tensor,
    narrow: torch.Tensor,
    kernel: Sequence[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    """Correlate the wide side with the narrow one over the batch: stride and dilation change roles."""
    batch, channels = wide.shape[:2]
    wide = wide.reshape(batch, groups, channels // groups, *wide.shape[2:]).movedim(2, 0)
    wide = wide.transpose(1, 2).reshape(channels // groups, groups * batch, *wide.shape[3:])
    narrow = narrow.transpose(0, 1)
    missing = [0] * len(stride)
    result = aten.convolution(wide, narrow, None, dilation, padding, stride, False, missing, groups)
    return _crop(result, kernel).transpose(0, 1)


def _crop(tensor: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    for dim, size in enumerate(sizes, start=2):
        if tensor.shape[dim] != size:
            tensor = tensor.narrow(dim, 0, size)
    return tensor
