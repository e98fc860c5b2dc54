"""Eigenvalues and singular values of small matrices by Jacobi's rotations, and what follows from them.

G. Golub and C. Van Loan, "Matrix Computations", 4th ed., 8.5 and 8.6.3. One step turns disjoint pairs of
columns, all at once; a round robin lets every column meet every other once a sweep.
"""

from __future__ import annotations

from typing import Any

import torch

from .factorisations import _reflect, _transposed
from .registry import aten, rewrites

# An unrolled sweep over n columns has n steps of some twenty operators each.
_MOST_COLUMNS = 16
# Convergence is quadratic: more sweeps changed no result in float32.
_SWEEPS = 6


def _fits(matrix: torch.Tensor) -> bool:
    return matrix.dtype == torch.float32 and min(matrix.shape[-2:]) <= _MOST_COLUMNS


def _rotate(x: torch.Tensor, y: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn each column of ``x`` with the same one of ``y`` until their first ``rows`` rows are orthogonal."""
    left, right = x[..., :rows, :], y[..., :rows, :]
    mixed = (left * right).sum(-2, keepdim=True)
    other = (right * right).sum(-2, keepdim=True) - (left * left).sum(-2, keepdim=True)
    idle = mixed == 0
    ratio = other / (2.0 * torch.where(idle, torch.ones_like(mixed), mixed))
    # The smaller root of t^2 + 2 t ratio = 1.
    size = 1.0 / (ratio.abs() + torch.sqrt(1.0 + ratio * ratio))
    tangent = torch.where(idle, torch.zeros_like(ratio), torch.where(ratio < 0, -size, size))
    cosine = 1.0 / torch.sqrt(1.0 + tangent * tangent)
    return cosine * (x - tangent * y), cosine * (y + tangent * x)


def _exchanged(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One step of the round robin: the first column of ``x`` stays, all others move on by one seat."""
    return (
        torch.cat([x[..., :1], y[..., :1], x[..., 1:-1]], -1),
        torch.cat([y[..., 1:], x[..., -1:]], -1),
    )


def _sorted_columns(values: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, order = torch.sort(values, dim=-1, descending=True, stable=True)
    return values, columns.gather(-1, order.unsqueeze(-2).expand(columns.shape))


def _eigen(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Ascending eigenvalues of a symmetric matrix, and its eigenvectors as columns.

    Shifted by a bound of its eigenvalues, so that it has no negative ones and they are its singular values.
    """
    shift = matrix.abs().sum(-1).amax(-1, keepdim=True)
    _, values, vectors = _diagonalised(matrix + shift.unsqueeze(-1) * torch.eye(matrix.shape[-1]))
    return torch.flip(values - shift, [-1]), torch.flip(vectors, [-1])


def _diagonalised(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The matrix turned until its columns are orthogonal, their descending lengths, and what turned it."""
    rows, columns = matrix.shape[-2:]
    right = torch.eye(columns, dtype=matrix.dtype).expand([*matrix.shape[:-2], columns, columns])
    both = torch.cat([matrix, right], -2)
    if columns > 1:
        if columns % 2:
            both = aten.constant_pad_nd(both, [0, 1])
        half = both.shape[-1] // 2
        x, y = both[..., :half], both[..., half:]
        for _ in range(_SWEEPS * (2 * half - 1)):
            x, y = _rotate(x, y, rows)
            if half > 1:
                x, y = _exchanged(x, y)
        both = torch.cat([x, y], -1)
    left, right = both[..., :rows, :], both[..., rows:, :]
    lengths = torch.sqrt((left * left).sum(-2))
    # A column put in to make them even belongs behind all others.
    lengths = torch.where((right * right).sum(-2) < 0.5, -torch.ones_like(lengths), lengths)
    values, both = _sorted_columns(lengths, both)
    return both[..., :rows, :columns], values[..., :columns], both[..., rows:, :columns]


def _singular(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """U with all its columns, descending singular values and V of a matrix with no more columns than rows."""
    rows, columns = matrix.shape[-2:]
    turned, values, v = _diagonalised(matrix)
    # Reflections give the directions of its columns up to the sign, and complete them.
    q, r = _reflect(turned)
    signs = torch.where(torch.diagonal(r, 0, -2, -1) < 0, -torch.ones_like(values), torch.ones_like(values))
    if rows > columns:
        signs = torch.cat([signs, torch.ones([*signs.shape[:-1], rows - columns])], -1)
    return q * signs.unsqueeze(-2), values, v


@rewrites(aten._linalg_eigh.default)
def _eigh(matrix: torch.Tensor, UPLO: str = "L", compute_v: bool = True) -> Any:
    if not _fits(matrix):
        return NotImplemented
    lower = matrix if UPLO.upper() == "L" else _transposed(matrix)
    values, vectors = _eigen(torch.tril(lower) + _transposed(torch.tril(lower, -1)))
    return values, vectors if compute_v else torch.empty([0])


@rewrites(aten._linalg_svd.default)
def _svd(
    matrix: torch.Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> Any:
    if not _fits(matrix):
        return NotImplemented
    wide = matrix.shape[-2] < matrix.shape[-1]
    u, values, v = _singular(_transposed(matrix) if wide else matrix)
    if not compute_uv:
        return torch.empty([0]), values, torch.empty([0])
    if not full_matrices:
        u = u[..., : values.shape[-1]]
    return (
        (v.clone(), values, _transposed(u).clone()) if wide else (u.clone(), values, _transposed(v).clone())
    )


@rewrites(aten.linalg_pinv.atol_rtol_tensor)
def _pinv(
    matrix: torch.Tensor,
    *,
    atol: torch.Tensor | None = None,
    rtol: torch.Tensor | None = None,
    hermitian: bool = False,
) -> Any:
    """Reciprocals of what is above the larger of ``atol`` and ``rtol`` times the largest; where there is no
    ``atol``, ``rtol`` is the larger size times the dtype's eps unless given.
    """
    if not _fits(matrix) or not min(matrix.shape[-2:]):
        return NotImplemented
    wide = matrix.shape[-2] < matrix.shape[-1]
    if hermitian:
        values, left = _eigen(torch.tril(matrix) + _transposed(torch.tril(matrix, -1)))
        right = left
    else:
        u, values, right = _singular(_transposed(matrix) if wide else matrix)
        left = u[..., : values.shape[-1]]
    sizes = values.abs()
    absolute = torch.zeros([]) if atol is None else atol.float()
    if rtol is None:
        usual = torch.full([], max(matrix.shape[-2:]) * torch.finfo(matrix.dtype).eps)
        relative = torch.where(absolute > 0, torch.zeros_like(usual), usual)
    else:
        relative = rtol.float()
    limit = torch.maximum(absolute.unsqueeze(-1), relative.unsqueeze(-1) * sizes.amax(-1, keepdim=True))
    kept = sizes > limit
    inverse = torch.where(
        kept, 1.0 / torch.where(kept, values, torch.ones_like(values)), torch.zeros_like(values)
    )
    result = (right * inverse.unsqueeze(-2)) @ _transposed(left)
    return (_transposed(result) if wide and not hermitian else result).clone()
