"""Direct linear algebra, unrolled over rows: for the small matrices of whitening, flows and Newton steps.

The algorithms are those of G. Golub and C. Van Loan, "Matrix Computations", 4th ed.: substitution (3.1),
elimination with partial pivoting (3.4), Cholesky's (4.2) and Householder's (5.2).
"""

from __future__ import annotations

from typing import Any

import torch

from .registry import aten, rewrites

# An unrolled factorisation of n rows is a graph of some ten n operators.
_MOST_ROWS = 128


def _fits(matrix: torch.Tensor) -> bool:
    return not matrix.dtype.is_complex and min(matrix.shape[-2:]) <= _MOST_ROWS


def _transposed(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.transpose(-2, -1)


def _info(matrix: torch.Tensor) -> torch.Tensor:
    return torch.zeros(matrix.shape[:-2], dtype=torch.int32)


def _substitute(matrix: torch.Tensor, right: torch.Tensor, upper: bool, unit: bool) -> torch.Tensor:
    """Solve triangular ``matrix`` @ x = ``right``, row after row."""
    size = matrix.shape[-1]
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    matrix = matrix.expand([*batch, size, size])
    right = right.expand([*batch, *right.shape[-2:]])
    rows: dict[int, torch.Tensor] = {}
    for row in reversed(range(size)) if upper else range(size):
        value = right[..., row : row + 1, :]
        known = sorted(rows)
        if known:
            done = torch.cat([rows[each] for each in known], -2)
            value = value - matrix[..., row : row + 1, known[0] : known[-1] + 1] @ done
        rows[row] = value if unit else value / matrix[..., row : row + 1, row : row + 1]
    return torch.cat([rows[each] for each in range(size)], -2) if size else right.clone()


@rewrites(aten.linalg_solve_triangular.default)
def _solve_triangular(
    matrix: torch.Tensor, right: torch.Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if not _fits(matrix):
        return NotImplemented
    if left:
        return _substitute(matrix, right, upper, unitriangular)
    flipped = _substitute(_transposed(matrix), _transposed(right), not upper, unitriangular)
    return _transposed(flipped).contiguous()


@rewrites(aten.triangular_solve.default)
def _triangular_solve(
    right: torch.Tensor,
    matrix: torch.Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    if not _fits(matrix):
        return NotImplemented
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    used = _transposed(matrix) if transpose else matrix
    solution = _substitute(used, right, upper != transpose, unitriangular)
    return solution, matrix.expand([*batch, *matrix.shape[-2:]]).clone()


def _cholesky_lower(matrix: torch.Tensor) -> torch.Tensor:
    size = matrix.shape[-1]
    columns: list[torch.Tensor] = []
    rest = matrix
    for column in range(size):
        pivot = torch.sqrt(rest[..., column : column + 1, column : column + 1])
        below = rest[..., :, column : column + 1] / pivot
        keep = (torch.arange(size) >= column).reshape(size, 1)
        values = torch.where(keep, below, torch.zeros_like(below))
        columns.append(values)
        rest = rest - values @ _transposed(values)
    return torch.cat(columns, -1) if columns else matrix.clone()


@rewrites(aten.linalg_cholesky_ex.default)
def _cholesky_ex(matrix: torch.Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    if not _fits(matrix):
        return NotImplemented
    symmetric = _transposed(matrix) if upper else matrix
    factor = _cholesky_lower(symmetric)
    # The first pivot that is not a positive number fails.
    bad = ~(torch.diagonal(factor, 0, -2, -1) > 0)
    size = matrix.shape[-1]
    place = torch.where(bad, torch.arange(1, size + 1), torch.full(bad.shape, size + 1)) if size else None
    info = _info(matrix)
    if place is not None:
        first = place.amin(-1)
        info = torch.where(first > size, torch.zeros_like(first), first).to(torch.int32)
    return (_transposed(factor).contiguous() if upper else factor), info


@rewrites(aten.cholesky.default)
def _cholesky(matrix: torch.Tensor, upper: bool = False) -> Any:
    result = _cholesky_ex(matrix, upper=upper)
    return result if result is NotImplemented else result[0]


@rewrites(aten.cholesky_solve.default)
def _cholesky_solve(right: torch.Tensor, factor: torch.Tensor, upper: bool = False) -> Any:
    if not _fits(factor):
        return NotImplemented
    lower = _transposed(factor) if upper else factor
    return _substitute(_transposed(lower), _substitute(lower, right, False, False), True, False)


@rewrites(aten.cholesky_inverse.default)
def _cholesky_inverse(factor: torch.Tensor, upper: bool = False) -> Any:
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype).expand(factor.shape)
    return _cholesky_solve(identity, factor, upper)


def _eliminate(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """L below and U on and above the diagonal, LAPACK's pivots (from 1), and the order of the rows."""
    rows, columns = matrix.shape[-2:]
    batch = matrix.shape[:-2]
    lu, line = matrix, torch.arange(rows)
    order = line.expand([*batch, rows])
    pivots = []
    for step in range(min(rows, columns)):
        size = lu[..., step].abs()
        candidates = torch.where(line >= step, size, torch.full_like(size, -1.0))
        pivot = candidates.argmax(-1, keepdim=True)
        pivots.append(pivot + 1)
        swapped = torch.where(
            line == step, pivot, torch.where(line == pivot, torch.full_like(pivot, step), line)
        )
        lu = lu.gather(-2, swapped.unsqueeze(-1).expand(lu.shape))
        order = order.gather(-1, swapped)
        head = lu[..., step : step + 1, step : step + 1]
        safe = torch.where(head == 0, torch.ones_like(head), head)
        below = (line > step).reshape(rows, 1)
        column = lu[..., :, step : step + 1]
        factors = torch.where(below, column / safe, torch.zeros_like(column))
        right = torch.arange(columns) > step
        row = torch.where(right, lu[..., step : step + 1, :], torch.zeros_like(lu[..., step : step + 1, :]))
        here = torch.arange(columns) == step
        lu = torch.where(below & here, factors, lu - factors @ row)
    if not pivots:
        return lu.clone(), torch.zeros([*batch, 0], dtype=torch.int32), order
    return lu, torch.cat(pivots, -1).to(torch.int32), order


def _singular(lu: torch.Tensor) -> torch.Tensor:
    """LAPACK's info: the first pivot that is zero, from 1; 0 if none is."""
    pivots = torch.diagonal(lu, 0, -2, -1)
    size = pivots.shape[-1]
    if not size:
        return _info(lu)
    place = torch.where(pivots == 0, torch.arange(1, size + 1), torch.full(pivots.shape, size + 1)).amin(-1)
    return torch.where(place > size, torch.zeros_like(place), place).to(torch.int32)


@rewrites(aten.linalg_lu_factor_ex.default)
def _lu_factor(matrix: torch.Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    if not _fits(matrix) or not pivot:
        return NotImplemented
    lu, pivots, _ = _eliminate(matrix)
    return lu, pivots, _singular(lu)


def _order_of(pivots: torch.Tensor, rows: int) -> torch.Tensor:
    """The order of the rows after LAPACK's exchanges."""
    line = torch.arange(rows)
    order = line.expand([*pivots.shape[:-1], rows])
    for step in range(pivots.shape[-1]):
        pivot = pivots[..., step : step + 1].to(torch.int64) - 1
        swapped = torch.where(
            line == step, pivot, torch.where(line == pivot, torch.full_like(pivot, step), line)
        )
        order = order.gather(-1, swapped)
    return order


def _unpack(lu: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = lu.shape[-2:]
    least = min(rows, columns)
    lower = torch.tril(lu[..., :, :least], -1) + torch.eye(rows, least, dtype=lu.dtype)
    return lower, torch.triu(lu[..., :least, :])


def _permutation(order: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """P with P @ L @ U as it was: column k has its one in row order[k]."""
    rows = order.shape[-1]
    return (order.unsqueeze(-2) == torch.arange(rows).reshape(rows, 1)).to(dtype)


@rewrites(aten.linalg_lu.default)
def _lu(matrix: torch.Tensor, *, pivot: bool = True) -> Any:
    if not _fits(matrix) or not pivot:
        return NotImplemented
    lu, _, order = _eliminate(matrix)
    return _permutation(order, matrix.dtype), *_unpack(lu)


@rewrites(aten.lu_unpack.default)
def _lu_unpack(
    lu: torch.Tensor, pivots: torch.Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    if not _fits(lu) or not (unpack_data and unpack_pivots):
        return NotImplemented
    return _permutation(_order_of(pivots, lu.shape[-2]), lu.dtype), *_unpack(lu)


def _solve_with(lu: torch.Tensor, order: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    batch = torch.broadcast_shapes(lu.shape[:-2], right.shape[:-2])
    right = right.expand([*batch, *right.shape[-2:]])
    order = order.expand([*batch, order.shape[-1]])
    moved = right.gather(-2, order.unsqueeze(-1).expand(right.shape))
    return _substitute(lu, _substitute(lu, moved, False, True), True, False)


@rewrites(aten.linalg_lu_solve.default)
def _lu_solve(
    lu: torch.Tensor, pivots: torch.Tensor, right: torch.Tensor, *, left: bool = True, adjoint: bool = False
) -> Any:
    if not _fits(lu):
        return NotImplemented
    order = _order_of(pivots, lu.shape[-1])
    if not left:
        return _transposed(_solve_lu(lu, order, _transposed(right), not adjoint)).contiguous()
    return _solve_lu(lu, order, right, adjoint)


def _solve_lu(lu: torch.Tensor, order: torch.Tensor, right: torch.Tensor, transposed: bool) -> torch.Tensor:
    if not transposed:
        return _solve_with(lu, order, right)
    flipped = _transposed(lu)
    value = _substitute(flipped, _substitute(flipped, right, False, False), True, True)
    back = _permutation(order, lu.dtype)
    return back @ value


@rewrites(aten._linalg_solve_ex.default)
def _solve(
    matrix: torch.Tensor, right: torch.Tensor, *, left: bool = True, check_errors: bool = False
) -> Any:
    if not _fits(matrix):
        return NotImplemented
    vector = right.ndim == 1 or (right.ndim + 1 == matrix.ndim and right.shape == matrix.shape[:-1])
    wide = right.unsqueeze(-1) if vector else right
    used = matrix if left else _transposed(matrix)
    lu, pivots, order = _eliminate(used)
    solution = _solve_with(lu, order, wide if left or vector else _transposed(wide))
    if not left and not vector:
        solution = _transposed(solution).contiguous()
    return (solution.squeeze(-1) if vector else solution), lu, pivots, _singular(lu)


@rewrites(aten.linalg_inv_ex.default)
def _inverse(matrix: torch.Tensor, *, check_errors: bool = False) -> Any:
    if not _fits(matrix):
        return NotImplemented
    lu, _, order = _eliminate(matrix)
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape)
    return _solve_with(lu, order, identity), _singular(lu)


def _determinant_sign(pivots: torch.Tensor) -> torch.Tensor:
    """-1 for each exchange of two rows."""
    exchanges = (pivots != torch.arange(1, pivots.shape[-1] + 1)).to(torch.int64).sum(-1)
    return 1.0 - 2.0 * (exchanges % 2).to(torch.float32)


# Both eliminate what LAPACK sees: the transpose, since PyTorch's rows are its columns.
@rewrites(aten._linalg_det.default)
def _determinant(matrix: torch.Tensor) -> Any:
    if not _fits(matrix):
        return NotImplemented
    if not matrix.shape[-1]:
        return (
            torch.ones(matrix.shape[:-2], dtype=matrix.dtype),
            matrix.clone(),
            _info(matrix).unsqueeze(-1)[..., :0],
        )
    lu, pivots, _ = _eliminate(_transposed(matrix) if matrix.is_contiguous() else matrix)
    sign = _determinant_sign(pivots).to(matrix.dtype)
    return torch.diagonal(lu, 0, -2, -1).prod(-1) * sign, lu, pivots


@rewrites(aten._linalg_slogdet.default)
def _log_determinant(matrix: torch.Tensor) -> Any:
    if not _fits(matrix):
        return NotImplemented
    if not matrix.shape[-1]:
        ones = torch.ones(matrix.shape[:-2], dtype=matrix.dtype)
        return ones, torch.zeros_like(ones), matrix.clone(), _info(matrix).unsqueeze(-1)[..., :0]
    lu, pivots, _ = _eliminate(_transposed(matrix) if matrix.is_contiguous() else matrix)
    diagonal = torch.diagonal(lu, 0, -2, -1)
    sign = torch.sign(diagonal).prod(-1) * _determinant_sign(pivots).to(matrix.dtype)
    return sign, torch.log(diagonal.abs()).sum(-1), lu, pivots


def _reflect(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Full Q and R by reflections, with LAPACK's choice of signs."""
    rows, columns = matrix.shape[-2:]
    q = torch.eye(rows, dtype=matrix.dtype).expand([*matrix.shape[:-2], rows, rows])
    r, line = matrix, torch.arange(rows).reshape(rows, 1)
    for step in range(min(rows - 1, columns)):
        column = r[..., :, step : step + 1]
        tail = torch.where(line >= step, column, torch.zeros_like(column))
        head = column[..., step : step + 1, :]
        length = torch.sqrt((tail * tail).sum(-2, keepdim=True))
        below = torch.where(line > step, column, torch.zeros_like(column))
        # LAPACK leaves a column alone that is zero below its head.
        idle = below.abs().sum(-2, keepdim=True) == 0
        target = torch.where(head >= 0, -length, length)
        vector = torch.where(line == step, head - target, below)
        square = (vector * vector).sum(-2, keepdim=True)
        scale = torch.where(
            idle, torch.zeros_like(square), 2.0 / torch.where(idle, torch.ones_like(square), square)
        )
        r = r - vector @ (_transposed(vector) @ r) * scale
        q = q - (q @ vector) @ _transposed(vector) * scale
    return q, torch.triu(r)


@rewrites(aten.linalg_qr.default)
def _qr(matrix: torch.Tensor, mode: str = "reduced") -> Any:
    if not _fits(matrix) or mode == "r":
        return NotImplemented
    q, r = _reflect(matrix)
    if mode == "complete":
        return q.clone(), r
    least = min(matrix.shape[-2:])
    return q[..., :, :least].clone(), r[..., :least, :].clone()
