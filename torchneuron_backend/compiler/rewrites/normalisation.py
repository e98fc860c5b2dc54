"""Group normalisation and the gradient of weight normalisation, from their definitions."""

from __future__ import annotations

import torch

from .registry import aten, rewrites


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
    result = (centred * scale).reshape(batch, channels, elements)
    if weight is not None:
        result = result * weight.float().reshape(1, channels, 1)
    if bias is not None:
        result = result + bias.float().reshape(1, channels, 1)
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
