"""Grouped matrix products of mixtures of experts: every expert's product over all rows, of which each row
keeps its own expert's. How many rows an expert has is data, so it cannot shape the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .registry import aten, rewrites


def _expert_of(offsets: torch.Tensor, rows: int) -> torch.Tensor:
    """[rows, 1]: ``offsets`` are where each expert's rows end; rows behind the last have none."""
    return (torch.arange(rows).unsqueeze(1) >= offsets).to(torch.int64).sum(-1, keepdim=True)


def _product(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """[rows, in] by [experts, in, out]."""
    expert = _expert_of(offsets, x.shape[0])
    result = torch.zeros([x.shape[0], weights.shape[2]], dtype=x.dtype)
    for index in range(weights.shape[0]):
        result = torch.where(expert == index, torch.mm(x, weights[index]), result)
    return result


def _per_expert(left: torch.Tensor, right: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """[rows, m] and [rows, n] to [experts, m, n]: the products over each expert's rows."""
    expert = _expert_of(offsets, left.shape[0])
    none = torch.zeros_like(left)
    other = torch.zeros_like(right)
    pieces = [
        torch.mm(
            torch.where(expert == index, left, none).transpose(0, 1),
            torch.where(expert == index, right, other),
        )
        for index in range(offsets.shape[0])
    ]
    return torch.stack(pieces)


def _product_backward(
    x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return _product(grad, weights.transpose(1, 2), offsets), _per_expert(x, grad, offsets)


@rewrites(aten._grouped_mm.default)
def _grouped_mm(
    left: torch.Tensor,
    right: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    if bias is not None:
        return NotImplemented
    if offs is None:
        result = torch.bmm(left, right)
    elif left.ndim == 2 and right.ndim == 3:
        result = _product(left, right, offs)
    elif left.ndim == right.ndim == 2:
        result = _per_expert(left.transpose(0, 1), right, offs)
    else:
        return NotImplemented
    return result.to(out_dtype or left.dtype)


def foreign_rewrites() -> dict[Any, Callable[..., Any]]:
    """Rewrites of operators that transformers defines, once it has been imported."""
    found: dict[Any, Callable[..., Any]] = {}
    for name, function in (
        ("grouped_mm_fallback", _product),
        ("grouped_mm_fallback_backward", _product_backward),
    ):
        packet = getattr(torch.ops.transformers, name, None)
        if packet is not None:
            found[packet.default] = function
    return found
