"""Small programs for what models call and OpInfo's samples do not reach, or only in other dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import _disable_current_modes

from .calls import Offered, collect_program


def _tensor(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    with _disable_current_modes():  # drawing it is no part of the program
        generator = torch.Generator().manual_seed(0)
        if dtype.is_floating_point:
            return torch.randn(shape, generator=generator).to(dtype).requires_grad_()
        return torch.randint(0, 2 if dtype == torch.bool else 9, shape, generator=generator).to(dtype)


def _plane(d: torch.dtype) -> torch.Tensor:
    return _tensor(d, 2, 3, 5, 4)


def _sampled(d: torch.dtype, **how: Any) -> torch.Tensor:
    return F.grid_sample(_plane(d), _tensor(d, 2, 3, 3, 2), align_corners=False, **how)


def _accumulated(d: torch.dtype, indices: list[torch.Tensor | None]) -> torch.Tensor:
    """The gradient of a read by indices, as devices other than the CPU compute it."""
    x = _tensor(d, 4, 4).detach()
    return torch.ops.aten._index_put_impl_(x, indices, x[tuple(_all(each) for each in indices)], True)


def _all(index: torch.Tensor | None) -> Any:
    return slice(None) if index is None else index


def _regular(d: torch.dtype, size: int) -> torch.Tensor:
    """A positive definite matrix, larger than OpInfo's: what lowers by size shows here."""
    half = _tensor(d, size, size).detach()
    return half @ half.T + size * torch.eye(size, dtype=d)


_DIAGONALISING: tuple[Callable[[torch.Tensor], Any], ...] = (
    torch.linalg.eigh,
    torch.linalg.svd,
    torch.linalg.pinv,
)
_DRAWING: tuple[Callable[[torch.Tensor], Any], ...] = (
    lambda x: x.uniform_(-1.0, 2.0),
    lambda x: x.bernoulli_(0.3),
    lambda x: torch.rand_like(x).bernoulli(),
    lambda x: x.exponential_(0.7),
    lambda x: x.cauchy_(0.5, 2.0),
    lambda x: x.geometric_(0.3),
    lambda x: x.random_(9),
    lambda x: x.random_(-3, 9),
    lambda x: torch.native_dropout(x, 0.1, True),
)
# The last draws in many rounds of the loop, and finds room in a group of its own: no condition has it.
_SIZES = ((3, 4), (40, 30), (150, 150))
_FACTORISING: tuple[Callable[[torch.Tensor], Any], ...] = (
    torch.linalg.cholesky,
    torch.linalg.det,
    torch.linalg.inv,
    torch.linalg.lu,
    torch.linalg.qr,
    torch.linalg.slogdet,
    torch.cholesky,
    torch.cholesky_inverse,
    lambda x: torch.cholesky_solve(x[:, :2], x),
    lambda x: torch.linalg.solve(x, x[:, :2]),
    lambda x: torch.linalg.solve_triangular(x, x[:, :2], upper=True),
    lambda x: torch.triangular_solve(x[:, :2], x),
    lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x[:, :2]),
    lambda x: torch.lu_unpack(*torch.linalg.lu_factor(x)),
    lambda x: torch.linalg.householder_product(*torch.geqrf(x)),
    lambda x: torch.ormqr(*torch.geqrf(x), x[:, :2]),
)


PROGRAMS: tuple[Callable[[torch.dtype], Any], ...] = (
    lambda d: F.interpolate(_plane(d), size=(7, 9), mode="nearest"),
    lambda d: F.interpolate(_plane(d), scale_factor=2.0, mode="nearest"),
    lambda d: F.interpolate(_plane(d), size=(3, 9), mode="nearest-exact"),
    lambda d: F.interpolate(_plane(d), scale_factor=1.5, mode="bilinear"),
    lambda d: F.interpolate(_plane(d), size=(3, 9), mode="bicubic"),
    lambda d: F.pad(_plane(d), (1, 2, 2, 1), mode="reflect"),
    lambda d: F.pad(_tensor(d, 2, 3, 6), (2, 1), mode="reflect"),
    lambda d: F.pad(_plane(d), (1, 2, 2, 1), mode="replicate"),
    lambda d: _sampled(d, padding_mode="border"),
    lambda d: _sampled(d, mode="nearest"),
    lambda d: 1 - _tensor(d, 3, 4),
    lambda d: _tensor(d, 3, 4).clamp(1, 5),
    lambda d: _tensor(d, 3, 4).clamp(max=5),
    lambda d: _tensor(d, 3, 4).clamp_min(1),
    lambda d: torch.arange(2, 9, dtype=d),
    lambda d: torch.arange(9, dtype=d),
    lambda d: torch.linspace(0, 3, 7, dtype=d),
    lambda d: torch.logspace(0, 3, 7, dtype=d),
    lambda d: _tensor(d, 3, 4).cumsum(-1),
    lambda d: _tensor(d, 3, 4) * 2 + 1,
    lambda d: _tensor(d, 3, 4) // 2,
    lambda d: _tensor(d, 3, 4) % 2,
    lambda d: _tensor(d, 3, 4).masked_fill(_tensor(torch.bool, 3, 4), 1),
    lambda d: torch.where(_tensor(torch.bool, 3, 4), _tensor(d, 3, 4), 0),
    lambda d: _tensor(d, 3, 4).triu(1),
    lambda d: _tensor(d, 3, 4).flip(0).roll(1, 1),
    lambda d: torch.cat([_tensor(d, 3, 4), _tensor(d, 1, 4)]),
    lambda d: torch.stack([_tensor(d, 3, 4), _tensor(d, 3, 4)], -1),
    lambda d: _tensor(d, 6, 4).index_add(0, torch.tensor([1, 1, 4]), _tensor(d, 3, 4)),
    lambda d: _tensor(d, 6, 4).unfold(0, 3, 2),
    lambda d: F.unfold(_plane(d), (2, 2)),
    lambda d: _tensor(d, 3, 4)[torch.tensor([0, 2, 1])],
    lambda d: (_tensor(d, 3, 4) != 0).all(-1).any(),
    lambda d: _tensor(d, 3, 4).amax(-1),
    lambda d: _tensor(d, 3, 4).sum(),
    lambda d: _tensor(d, 3, 4).repeat_interleave(2, 0),
    lambda d: _tensor(d, 3, 4)[_tensor(d, 3, 4) > 0],
    lambda d: _accumulated(d, [torch.tensor([0, 2, 0])]),
    lambda d: _accumulated(d, [None, torch.tensor([1, 1, 3])]),
    lambda d: torch.searchsorted(_tensor(d, 3, 6).sort(-1)[0], _tensor(d, 3, 4)),
    lambda d: torch.searchsorted(_tensor(d, 6).sort(-1)[0], _tensor(d, 3, 4), right=True),
    *(lambda d, run=run, size=size: run(_tensor(d, *size).detach()) for run in _DRAWING for size in _SIZES),
    *(lambda d, run=run: run(_regular(d, 20)) for run in _DIAGONALISING),
    *(lambda d, run=run: run(_regular(d, 130)) for run in (*_DIAGONALISING, *_FACTORISING)),
)


def collect_programs(calls: Offered, dtypes: tuple[torch.dtype, ...]) -> None:
    """Offer what each program calls in each of ``dtypes`` that it works in, backward too."""
    for program in PROGRAMS:
        for dtype in dtypes:
            try:
                collect_program(calls, lambda program=program, dtype=dtype: _there_and_back(program(dtype)))
            except (RuntimeError, NotImplementedError, TypeError):
                continue  # not every program has every dtype


def _there_and_back(result: Any) -> None:
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.float().square().sum().backward()
