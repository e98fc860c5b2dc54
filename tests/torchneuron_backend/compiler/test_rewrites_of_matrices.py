"""Rewrites of spectra and reflectors against PyTorch's own kernels, as plain PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.torchneuron_backend.compiler.test_rewrites import agrees, tensor
from torchneuron_backend.compiler.rewrites import REWRITES
from torchneuron_backend.probe.gauges import without_choice

aten = torch.ops.aten
SHAPES = [(1, 1), (4, 4), (7, 3), (3, 7), (2, 5, 5), (16, 16), (20, 15)]


def agrees_but_for_choice(overload: torch._ops.OpOverload, matrix: torch.Tensor, *args: object) -> None:
    ours = without_choice(overload, list(REWRITES[overload](matrix, *args)))
    theirs = without_choice(overload, list(overload(matrix, *args)))
    assert len(ours) == len(theirs) > 2
    for mine, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_singular_values(shape: tuple[int, ...], full: bool) -> None:
    agrees_but_for_choice(aten._linalg_svd.default, tensor(*shape), full)
    values = REWRITES[aten._linalg_svd.default](tensor(*shape), False, False)[1]
    torch.testing.assert_close(values, torch.linalg.svdvals(tensor(*shape)), rtol=1e-4, atol=1e-4)


def test_singular_vectors_are_completed_where_values_are_zero() -> None:
    matrix = tensor(6, 4)
    matrix[:, 1] = matrix[:, 0]
    for each in (matrix, torch.zeros(4, 3), torch.ones(3, 3)):
        agrees_but_for_choice(aten._linalg_svd.default, each, True)


@pytest.mark.parametrize("size", [1, 2, 5, 9, 16])
def test_eigenvalues(size: int) -> None:
    matrix = tensor(2, size, size)
    for triangle in ("L", "U"):
        agrees_but_for_choice(aten._linalg_eigh.default, matrix, triangle)
    agrees_but_for_choice(aten._linalg_eigh.default, torch.zeros(size, size))
    agrees_but_for_choice(aten._linalg_eigh.default, -torch.eye(size))


def inverts(matrix: torch.Tensor, **how: Any) -> None:
    overload = aten.linalg_pinv.atol_rtol_tensor
    torch.testing.assert_close(
        REWRITES[overload](matrix, **how), overload(matrix, **how), rtol=1e-3, atol=1e-3, check_stride=False
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_pseudo_inverses(shape: tuple[int, ...]) -> None:
    matrix = tensor(*shape)
    inverts(matrix)
    inverts(matrix + matrix.mT if matrix.shape[-2] == matrix.shape[-1] else torch.eye(3), hermitian=True)
    inverts(torch.cat([matrix, matrix], -1)[..., :12], rtol=torch.tensor(1e-3))
    inverts(matrix, atol=torch.tensor(0.5, dtype=torch.float64))


def test_a_pseudo_inverse_without_a_limit_of_its_own_drops_rounding_noise() -> None:
    inverts(torch.ones(4, 4))


@pytest.mark.parametrize(
    "overload", [aten._linalg_svd.default, aten._linalg_eigh.default, aten.geqrf.default]
)
def test_what_is_too_large_is_left_alone(overload: torch._ops.OpOverload) -> None:
    assert REWRITES[overload](tensor(130, 130)) is NotImplemented


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (2, 5, 4), (1, 1)])
def test_reflectors(shape: tuple[int, ...]) -> None:
    matrix = tensor(*shape)
    agrees(aten.geqrf.default, matrix, atol=1e-4)
    agrees(aten.geqrf.default, torch.triu(matrix))
    factors, tau = torch.geqrf(matrix)
    if shape[-2] >= shape[-1]:
        agrees(aten.linalg_householder_product.default, factors, tau)
        for transpose in (False, True):
            agrees(aten.ormqr.default, factors, tau, tensor(*shape[:-1], 2), True, transpose)
            agrees(aten.ormqr.default, factors, tau, tensor(*shape[:-2], 2, shape[-2]), False, transpose)


@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0])
def test_the_exponential(scale: float) -> None:
    agrees(aten.linalg_matrix_exp.default, scale * tensor(2, 4, 4), rtol=1e-4, atol=1e-4)


def test_eigenvectors_are_compared_by_what_defines_them() -> None:
    values, vectors = torch.linalg.eigh(tensor(4, 4))
    turned = [values, vectors * torch.tensor([1.0, -1.0, 1.0, -1.0])]
    wrong = [values, vectors.flip(-1)]
    right = without_choice(aten._linalg_eigh.default, [values, vectors])
    close = [
        all(
            torch.allclose(a, b, atol=1e-5)
            for a, b in zip(without_choice(aten._linalg_eigh.default, each), right, strict=True)
        )
        for each in (turned, wrong)
    ]
    assert close == [True, False]
