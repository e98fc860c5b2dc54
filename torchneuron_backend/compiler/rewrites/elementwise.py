"""More elementwise operators and losses, with their gradients."""

from __future__ import annotations

import math
from typing import Any

import torch

from .registry import aten, rewrites


def _extreme_number(x: torch.Tensor, y: torch.Tensor, operation: Any, joined: Any) -> torch.Tensor:
    """The larger (smaller) of two; a number wins over a NaN."""
    dtype = torch.result_type(x, y)
    x, y = (side.to(dtype).clone() for side in torch.broadcast_tensors(x, y))
    if dtype == torch.bool:
        return joined(x, y)
    value = operation(x, y)
    if not dtype.is_floating_point:
        return value
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, value))


@rewrites(aten.fmax.default)
def _fmax(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _extreme_number(x, y, torch.maximum, torch.logical_or)


@rewrites(aten.fmin.default)
def _fmin(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _extreme_number(x, y, torch.minimum, torch.logical_and)


@rewrites(aten.hypot.default)
def _hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Scaled by the larger side, so that no square overflows."""
    dtype = torch.result_type(x, y)
    x, y = (side.float().abs().clone() for side in torch.broadcast_tensors(x, y))
    large, small = torch.maximum(x, y), torch.minimum(x, y)
    ratio = small / torch.where(large == 0, torch.ones_like(large), large)
    value = large * torch.sqrt(1.0 + ratio * ratio)
    endless = x.isinf() | y.isinf()
    return torch.where(endless, torch.full_like(value, math.inf), value).to(dtype)


@rewrites(aten.angle.default)
def _angle(x: torch.Tensor) -> Any:
    if x.dtype.is_complex:
        return NotImplemented
    dtype = x.dtype if x.dtype.is_floating_point else torch.float32
    x = x.to(dtype)
    value = torch.where(x < 0, torch.full_like(x, math.pi), torch.zeros_like(x))
    return torch.where(x.isnan(), x, value)


def _divisor(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Euclid's algorithm; Fibonacci numbers need the most steps, as many as fit the integers."""
    x, y = (side.abs().clone() for side in torch.broadcast_tensors(x, y))
    for _ in range(92 if x.dtype == torch.int64 else 46):
        done = y == 0
        rest = torch.fmod(x, torch.where(done, torch.ones_like(y), y))
        x, y = torch.where(done, x, y), torch.where(done, y, rest)
    return x


@rewrites(aten.gcd.default)
def _gcd(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    dtype = torch.result_type(x, y)
    return _divisor(x.to(dtype), y.to(dtype))


@rewrites(aten.lcm.default)
def _lcm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    dtype = torch.result_type(x, y)
    x, y = x.to(dtype), y.to(dtype)
    shared = _divisor(x, y)
    safe = torch.where(shared == 0, torch.ones_like(shared), shared)
    return (torch.div(x, safe, rounding_mode="trunc") * y).abs()


@rewrites(aten.signbit.default)
def _signbit(x: torch.Tensor) -> Any:
    return torch.zeros_like(x) if x.dtype == torch.bool else NotImplemented


@rewrites(aten.isinf.default)
def _isinf(x: torch.Tensor) -> Any:
    return torch.zeros_like(x) if x.dtype == torch.bool else NotImplemented


@rewrites(aten.copysign.Tensor)
def _copysign(x: torch.Tensor, y: torch.Tensor) -> Any:
    if x.dtype != torch.bool:
        return NotImplemented
    if y.dtype == torch.bool:
        return x.float().expand(torch.broadcast_shapes(x.shape, y.shape)).clone()
    return aten.copysign.Tensor(x.float() if not y.dtype.is_floating_point else x.to(y.dtype), y)


@rewrites(aten.copysign.Scalar)
def _copysign_number(x: torch.Tensor, number: float) -> torch.Tensor:
    size = x.abs() if x.dtype.is_floating_point else x.float().abs()
    return -size if math.copysign(1.0, number) < 0 else size


def _shrunk(grad: torch.Tensor, x: torch.Tensor, limit: float) -> torch.Tensor:
    return torch.where((x >= -limit) & (x <= limit), torch.zeros_like(grad), grad)


@rewrites(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def _shrink_backward(grad: torch.Tensor, x: torch.Tensor, limit: float) -> torch.Tensor:
    return _shrunk(grad, x, limit)


@rewrites(aten.soft_margin_loss_backward.default)
def _soft_margin_loss_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int
) -> torch.Tensor:
    target = target.float()
    slope = -target * torch.sigmoid(-target * x.float())
    norm = 1.0 / x.numel() if reduction == 1 else 1.0
    return (slope * norm * grad.float()).to(x.dtype)


@rewrites(aten.rrelu_with_noise_backward.default)
def _rrelu_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float,
    upper: float,
    training: bool,
    self_is_result: bool,
) -> torch.Tensor:
    if training and upper - lower > 1e-6:
        return grad * noise
    slope = (lower + upper) / 2
    return torch.where(x > 0, grad, grad * slope)


@rewrites(aten.dist.default)
def _dist(x: torch.Tensor, y: torch.Tensor, p: float = 2) -> torch.Tensor:
    difference = (x - y).float().reshape(-1).abs()
    return _norm(difference, float(p)).to(x.dtype)


def _norm(size: torch.Tensor, p: float) -> torch.Tensor:
    """The p-norm of what is not negative, along the last dimension."""
    if p == 0:
        return (size != 0).float().sum(-1)
    if math.isinf(p):
        return size.amax(-1) if p > 0 else size.amin(-1)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return torch.sqrt((size * size).sum(-1))
    return torch.pow(torch.pow(size, p).sum(-1), 1.0 / p)


@rewrites(aten.linalg_vector_norm.default)
def _vector_norm(
    x: torch.Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Scalars, for which Torch-MLIR has no dimension to reduce: their size, or one if that is not zero."""
    if x.ndim or x.dtype.is_complex:
        return NotImplemented
    size = x.to(dtype or x.dtype).abs()
    return (size != 0).to(size.dtype) if ord == 0 else size


@rewrites(aten._cdist_forward.default)
def _cdist(x: torch.Tensor, y: torch.Tensor, p: float, mode: int | None) -> torch.Tensor:
    return _norm((x.unsqueeze(-2) - y.unsqueeze(-3)).abs().float(), p).to(x.dtype)


@rewrites(aten._cdist_backward.default)
def _cdist_backward(
    grad: torch.Tensor, x: torch.Tensor, y: torch.Tensor, p: float, distances: torch.Tensor
) -> torch.Tensor:
    """The gradient with respect to ``x``, zero where two points coincide."""
    if p == 0 or grad.numel() == 0:
        return torch.zeros_like(x).expand([*grad.shape[:-2], *x.shape[-2:]]).clone()
    difference = x.unsqueeze(-2) - y.unsqueeze(-3)
    size, far, wide = difference.abs(), distances.unsqueeze(-1), grad.unsqueeze(-1)
    if math.isinf(p):
        share = (size == far).to(x.dtype) * difference.sign()
    elif p == 1:
        share = difference.sign()
    else:
        safe = torch.where(far == 0, torch.ones_like(far), far)
        share = difference.sign() * torch.pow(size / safe, p - 1)
        share = torch.where((far == 0) | (size == 0), torch.zeros_like(share), share)
    return (share * wide).sum(-2)


@rewrites(aten.linalg_cross.default)
def _cross(x: torch.Tensor, y: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    x, y = (side.clone() for side in torch.broadcast_tensors(x, y))
    (a, b, c), (d, e, f) = x.unbind(dim), y.unbind(dim)
    return torch.stack([b * f - c * e, c * d - a * f, a * e - b * d], dim)


@rewrites(aten.addbmm.default)
def _addbmm(
    x: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    if x.dtype.is_floating_point:
        product = torch.bmm(left.float(), right.float()).sum(0) * alpha
        return (product if beta == 0 else x.float() * beta + product).to(x.dtype)
    product = torch.bmm(left, right).sum(0).to(x.dtype) * int(alpha)
    return product if int(beta) == 0 else x * int(beta) + product


@rewrites(aten.batch_norm_backward.default)
def _batch_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    save_mean: torch.Tensor | None,
    save_var: torch.Tensor | None,
    update: bool,
    eps: float,
    output_mask: list[bool],
    reserve: torch.Tensor,
) -> Any:
    return aten.native_batch_norm_backward.default(
        grad, x, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )


@rewrites(aten._efficientzerotensor.default)
def _zeros(size: list[int], *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return torch.zeros(size, dtype=dtype)


def _edges(count: int, before: int, after: int) -> torch.Tensor:
    """Which input element each element of a replicated row repeats."""
    return (torch.arange(count + before + after) - before).clamp(0, count - 1)


def _replication_backward(grad: torch.Tensor, x: torch.Tensor, padding: list[int]) -> torch.Tensor:
    result = grad.float()
    for index in range(len(padding) // 2):
        before, after = padding[2 * index : 2 * index + 2]
        dim = x.ndim - 1 - index
        size = x.shape[dim]
        shape = [*result.shape[:dim], size, *result.shape[dim + 1 :]]
        result = torch.zeros(shape).index_add(dim, _edges(size, before, after), result)
    return result.to(grad.dtype)


for _overload in (
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
):
    rewrites(_overload)(_replication_backward)
