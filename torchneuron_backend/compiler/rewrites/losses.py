"""Gradients of the margin losses over classes (ATen/native/LossMultiMargin.cpp, LossMultiLabelMargin.cpp)."""

from __future__ import annotations

import torch

from .registry import aten, rewrites

_MEAN = 1


def _weighed(gradient: torch.Tensor, outer: torch.Tensor, x: torch.Tensor, reduction: int) -> torch.Tensor:
    """``gradient`` [rows, classes] per unit of loss, times the incoming gradient, in the shape of ``x``."""
    rows, classes = gradient.shape
    share = 1.0 / (classes * rows) if reduction == _MEAN else 1.0 / classes
    by_row = outer.float().reshape(-1, 1)
    return (gradient * share * by_row).reshape(x.shape).to(x.dtype)


@rewrites(aten.multi_margin_loss_backward.default)
def _multi_margin_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    p: float,
    margin: float,
    weight: torch.Tensor | None = None,
    reduction: int = _MEAN,
) -> torch.Tensor:
    """Each class within the margin of the target's gains what the target loses."""
    rows = x.float().reshape(-1, x.shape[-1] if x.ndim else 1)
    own = target.reshape(-1, 1) == torch.arange(rows.shape[1])
    distance = margin + rows - rows.gather(1, target.reshape(-1, 1))
    push = (distance > 0).float() if p == 1 else 2.0 * distance.clamp(min=0.0)
    if weight is not None:
        push = push * weight.float().index_select(0, target.reshape(-1)).unsqueeze(1)
    push = torch.where(own, torch.zeros_like(push), push)
    gradient = torch.where(own, -push.sum(1, keepdim=True), push)
    return _weighed(gradient, grad, x, reduction)


@rewrites(aten.multilabel_margin_loss_backward.default)
def _multilabel_margin_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, is_target: torch.Tensor
) -> torch.Tensor:
    """Each pair of a target and another class within a distance of one; targets end at the first -1."""
    rows = x.float().reshape(-1, x.shape[-1] if x.ndim else 1)
    classes = rows.shape[1]
    targets = target.reshape(-1, classes)
    listed = (targets < 0).to(torch.int64).cumsum(1) == 0
    places = torch.where(listed, targets, torch.zeros_like(targets))
    other = is_target.reshape(-1, 1, classes) == 0
    near = rows.unsqueeze(1) - rows.gather(1, places).unsqueeze(2) + 1.0 > 0
    pushes = (near & other & listed.unsqueeze(2)).float()
    gradient = pushes.sum(1).scatter_add(1, places, -pushes.sum(2))
    return _weighed(gradient, grad, x, reduction)
