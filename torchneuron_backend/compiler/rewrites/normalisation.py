"""Group normalisation and the gradient of weight normalisation, from their definitions."""

from __future__ import annotations

from typing import Any

import torch

from .registry import aten, rewrites


def _by_channel(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    """x * weight + bias, of what there is, in float32; dimension 1 of ``x`` is that of the channels."""
    shape = [1, -1, *[1] * (x.ndim - 2)]
    if weight is not None:
        x = x * weight.float().reshape(shape)
    if bias is not None:
        x = x + bias.float().reshape(shape)
    return x


@rewrites(aten.native_group_norm.default)
def _group_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    batch: int,
    channels: int,
    elements: int,
    groups: int,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grouped = x.float().reshape(batch, groups, channels // groups * elements)
    mean = grouped.mean(-1, keepdim=True)
    centred = grouped - mean
    scale = ((centred * centred).mean(-1, keepdim=True) + eps).rsqrt()
    result = _by_channel((centred * scale).reshape(batch, channels, elements), weight, bias)
    statistics = x.dtype if weight is None or weight.dtype == x.dtype else weight.dtype
    result = result.reshape(x.shape).to(x.dtype)
    return result, mean.squeeze(-1).to(statistics), scale.squeeze(-1).to(statistics)


@rewrites(aten._weight_norm_interface_backward.default)
def _weight_norm_backward(
    grad: torch.Tensor, direction: torch.Tensor, length: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """For weight = direction * length / norm, the norm over all dimensions but ``dim``."""
    others = [each for each in range(direction.ndim) if each != dim]
    norms = norms.to(direction.dtype)
    along = (grad * direction).sum(others, keepdim=True)
    grad_length = along / norms
    grad_direction = (length / norms) * (grad - direction * along / (norms * norms))
    return grad_direction, grad_length.reshape(length.shape)


@rewrites(aten._native_batch_norm_legit_no_training.default)
def _batch_norm_inference(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """With the statistics beside the result in full size, as devices other than the CPU return them."""
    shape = [1, -1, *[1] * (x.ndim - 2)]
    mean, scale = running_mean.float(), (running_var.float() + eps).rsqrt()
    result = _by_channel((x.float() - mean.reshape(shape)) * scale.reshape(shape), weight, bias)
    statistics = running_mean.dtype
    return result.to(x.dtype), mean.to(statistics), scale.to(statistics)


@rewrites(aten._native_batch_norm_legit_functional.default)
def _batch_norm_functional(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if training:
        return NotImplemented
    results = _batch_norm_inference(x, weight, bias, running_mean, running_var, momentum, eps)
    return (*results, running_mean.clone(), running_var.clone())


@rewrites(aten.native_batch_norm.default)
def _native_batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The results alone: new running statistics are results of another overload."""
    if not training and running_mean is not None and running_var is not None:
        return _batch_norm_inference(x, weight, bias, running_mean, running_var, momentum, eps)
    if running_mean is None or running_var is None:
        return aten._native_batch_norm_legit.no_stats(x, weight, bias, training, momentum, eps)
    functional = aten._native_batch_norm_legit_functional.default
    return functional(x, weight, bias, running_mean, running_var, training, momentum, eps)[:3]


@rewrites(aten._batch_norm_with_update_functional.default)
def _batch_norm_with_update(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    momentum: float,
    eps: float,
) -> Any:
    """Training, with room for what a kernel keeps for its gradient: here, as on the CPU, nothing."""
    functional = aten._native_batch_norm_legit_functional.default
    result, mean, scale, *updated = functional(
        x, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return result, mean, scale, torch.empty([0], dtype=torch.uint8), *updated
