"""Gradients of convolutions, as convolutions: those that Torch-MLIR writes cover two dimensions without groups only."""

from __future__ import annotations

from collections.abc import Sequence

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
    missing = [0] * len(stride)
    if not transposed:
        for i, (step, border, gap) in enumerate(zip(stride, padding, dilation, strict=True)):
            reached = (grad.shape[i + 2] - 1) * step - 2 * border + gap * (weight.shape[i + 2] - 1) + 1
            missing[i] = x.shape[i + 2] - reached
    result = aten.convolution(grad, weight, None, stride, padding, dilation, not transposed, missing, groups)
    return _crop(result, x.shape[2:])


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
