"""Householder's reflectors as LAPACK keeps them (I - tau v v^T, v below the diagonal with a leading one), and
the exponential of a matrix.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .factorisations import _fits, _transposed
from .registry import aten, rewrites


def _vector(matrix: torch.Tensor, step: int) -> torch.Tensor:
    line = torch.arange(matrix.shape[-2]).reshape(-1, 1)
    column = matrix[..., :, step : step + 1]
    below = torch.where(line > step, column, torch.zeros_like(column))
    return torch.where(line == step, torch.ones_like(column), below)


def _applied(columns: torch.Tensor, vector: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
    return columns - tau * vector @ (_transposed(vector) @ columns)


@rewrites(aten.geqrf.default)
def _geqrf(matrix: torch.Tensor) -> Any:
    if not _fits(matrix):
        return NotImplemented
    rows, columns = matrix.shape[-2:]
    line, across = torch.arange(rows).reshape(-1, 1), torch.arange(columns)
    result, taus = matrix, []
    for step in range(min(rows, columns)):
        column = result[..., :, step : step + 1]
        head = column[..., step : step + 1, :]
        below = torch.where(line > step, column, torch.zeros_like(column))
        rest = (below * below).sum(-2, keepdim=True)
        idle = rest == 0
        length = torch.sqrt(head * head + rest)
        beta = torch.where(head >= 0, -length, length)
        safe = torch.where(idle, torch.ones_like(beta), beta)
        tau = torch.where(idle, torch.zeros_like(beta), (beta - head) / safe)
        scale = torch.where(idle, torch.ones_like(beta), head - beta)
        vector = torch.where(line == step, torch.ones_like(column), below / scale)
        reflected = _applied(result, vector, tau)
        kept = torch.where(
            line > step, vector, torch.where(line == step, torch.where(idle, head, beta), column)
        )
        result = torch.where(across > step, reflected, torch.where(across == step, kept, result))
        taus.append(tau.squeeze(-1))
    return result, torch.cat(taus, -1) if taus else matrix.new_zeros([*matrix.shape[:-2], 0])


@rewrites(aten.linalg_householder_product.default)
def _householder_product(matrix: torch.Tensor, tau: torch.Tensor) -> Any:
    if not _fits(matrix):
        return NotImplemented
    result = torch.eye(*matrix.shape[-2:], dtype=matrix.dtype).expand(matrix.shape).clone()
    for step in reversed(range(tau.shape[-1])):
        result = _applied(result, _vector(matrix, step), tau[..., step : step + 1].unsqueeze(-1))
    return result


@rewrites(aten.ormqr.default)
def _ormqr(
    matrix: torch.Tensor, tau: torch.Tensor, other: torch.Tensor, left: bool = True, transpose: bool = False
) -> Any:
    """Q or its transpose times ``other``; from the right, the transpose of the product from the left."""
    if not _fits(matrix):
        return NotImplemented
    result = other if left else _transposed(other)
    steps = range(tau.shape[-1])
    for step in steps if left == transpose else reversed(steps):
        result = _applied(result, _vector(matrix, step), tau[..., step : step + 1].unsqueeze(-1))
    return result.clone() if left else _transposed(result).contiguous()


# Twelve terms of the series are exact in float32 for norms up to a half, and a norm of 2^_MOST_HALVINGS
# overflows it.
_TERMS = 12
_MOST_HALVINGS = 10


@rewrites(aten.linalg_matrix_exp.default)
def _matrix_exp(matrix: torch.Tensor) -> Any:
    """Scaling and squaring (Golub and Van Loan, 9.3.1)."""
    if matrix.dtype.is_complex or matrix.dtype == torch.float64:
        return NotImplemented
    floats = matrix.float()
    norm = floats.abs().sum(-2).amax(-1)[..., None, None]
    halvings = torch.zeros_like(norm)
    for each in range(_MOST_HALVINGS):
        halvings = torch.where(norm > 0.5 * 2.0**each, torch.full_like(norm, each + 1.0), halvings)
    factor = torch.ones_like(norm)
    for each in range(_MOST_HALVINGS):
        factor = torch.where(halvings > each, factor * 0.5, factor)
    small = floats * factor
    term = torch.eye(matrix.shape[-1]).expand(matrix.shape)
    result = term
    for each in range(1, _TERMS + 1):
        term = (term @ small) / float(each)
        result = result + term
    for each in range(_MOST_HALVINGS):
        result = torch.where(halvings > each, result @ result, result)
    overflow = ~(norm <= 2.0 ** (_MOST_HALVINGS - 1))
    return torch.where(overflow, torch.full_like(result, math.nan), result).to(matrix.dtype)
