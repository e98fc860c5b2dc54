"""Scaled dot product attention, forward and backward, from its definition.

PyTorch's own decomposition of the CPU's kernel returns the attention matrix in place of its logarithmic
sum, which suits inference only.
"""

from __future__ import annotations

import math

import torch

from .registry import aten, rewrites


@rewrites(aten._scaled_dot_product_flash_attention_for_cpu.default)
def _forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and, per query, the logarithm of the sum of exponentials (float32; 0 if all is masked)."""
    _no_dropout(dropout_p)
    key, value = (_spread_heads(tensor, query) for tensor in (key, value))
    scores = _scores(query, key, is_causal, attn_mask, scale)
    top = scores.amax(-1, keepdim=True)
    top = torch.where(top == -math.inf, torch.zeros_like(top), top)
    weights = (scores - top).exp()
    total = weights.sum(-1, keepdim=True)
    empty = total == 0
    safe = torch.where(empty, torch.ones_like(total), total)
    output = (weights / safe).to(query.dtype) @ value
    logsumexp = torch.where(empty, torch.zeros_like(total), top + safe.log()).squeeze(-1)
    return output, logsumexp


@rewrites(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def _backward(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _no_dropout(dropout_p)
    wide_key, wide_value = (_spread_heads(tensor, query) for tensor in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    weights = (_scores(query, wide_key, is_causal, attn_mask, scale) - logsumexp.unsqueeze(-1)).exp()
    grad32, output32 = grad.float(), output.float()
    grad_value = weights.transpose(-2, -1) @ grad32
    grad_weights = grad32 @ wide_value.float().transpose(-2, -1)
    grad_scores = weights * (grad_weights - (grad32 * output32).sum(-1, keepdim=True)) * factor
    grad_query = grad_scores @ wide_key.float()
    grad_key = grad_scores.transpose(-2, -1) @ query.float()
    return (
        grad_query.to(query.dtype),
        _gather_heads(grad_key, key).to(key.dtype),
        _gather_heads(grad_value, value).to(value.dtype),
    )


def _no_dropout(probability: float) -> None:
    if probability:
        raise NotImplementedError("attention with dropout needs a random generator on the device")


def _scores(
    query: torch.Tensor, key: torch.Tensor, is_causal: bool, mask: torch.Tensor | None, scale: float | None
) -> torch.Tensor:
    """Scaled, masked products in float32, the precision the CPU's kernel accumulates in."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query.float() @ key.float().transpose(-2, -1)) * factor
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = torch.where(mask, scores, torch.full_like(scores, -math.inf))
        else:
            scores = scores + mask
    if is_causal:
        rows, columns = torch.arange(query.shape[-2]).unsqueeze(1), torch.arange(key.shape[-2])
        scores = torch.where(columns <= rows, scores, torch.full_like(scores, -math.inf))
    return scores


def _spread_heads(tensor: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Each key head serves as many query heads as there are for it (grouped-query attention)."""
    times = query.shape[1] // tensor.shape[1]
    if times == 1:
        return tensor
    batch, heads, length, width = tensor.shape
    wide = tensor.unsqueeze(2).expand(batch, heads, times, length, width)
    return wide.reshape(batch, heads * times, length, width)


def _gather_heads(grad: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    if grad.shape[1] == tensor.shape[1]:
        return grad
    return grad.unflatten(1, (tensor.shape[1], -1)).sum(2)
