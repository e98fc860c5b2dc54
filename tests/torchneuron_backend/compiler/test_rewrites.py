"""Each rewrite against PyTorch's own kernel on the CPU, as plain PyTorch: no compiler takes part.

That they lower is what the probe measures.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten

from torchneuron_backend.compiler.rewrites import REWRITES

aten = torch.ops.aten
NAN, INF = math.nan, math.inf
NUMBERS = (torch.float32, torch.bfloat16, torch.int64, torch.int32)


def agrees(overload: Any, *args: Any, rtol: float = 1e-5, atol: float = 1e-5, **kwargs: Any) -> None:
    """The rewrite of ``overload`` gives what the kernel gives: shapes, dtypes and values."""
    ours = tree_flatten(REWRITES[overload](*args, **kwargs))[0]
    theirs = tree_flatten(overload(*args, **kwargs))[0]
    assert len(ours) == len(theirs)
    for mine, expected in zip(ours, theirs, strict=True):
        if expected.dtype in (torch.bfloat16, torch.float16):
            rtol, atol = max(rtol, 1e-2), max(atol, 1e-2)
        torch.testing.assert_close(mine, expected, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)


def tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 9, shape, generator=generator).to(dtype)


def places(*shape: int, below: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool])
def test_views(dtype: torch.dtype) -> None:
    x = tensor(4, 5, 6, dtype=dtype)
    agrees(aten.view_copy.default, x, [20, 6])
    agrees(aten.permute_copy.default, x, [2, 0, -2])
    agrees(aten.narrow_copy.default, x, -1, 2, 3)
    agrees(aten.narrow_copy.default, x, 0, -2, 1)
    agrees(aten.unbind_copy.int, x, -1)
    for dim, size, step in ((0, 2, 1), (-1, 3, 2), (1, 5, 7)):
        agrees(aten.unfold.default, x, dim, size, step)
    agrees(aten.unfold.default, x[0, 0, 0], 0, 1, 1)
    for offset, dim1, dim2 in ((0, 0, 1), (2, -1, 0), (-3, 1, 2)):
        diagonal = torch.diagonal(x, offset, dim1, dim2)
        source = tensor(*diagonal.shape, dtype=dtype, seed=3)
        agrees(aten.diagonal_scatter.default, x, source, offset, dim1, dim2)
        if dtype.is_floating_point:
            agrees(aten.diagonal_backward.default, source, [4, 5, 6], offset, dim1, dim2)
    if dtype.is_floating_point:
        grad = tensor(4, 5, 2, 3, dtype=dtype)
        agrees(aten.unfold_backward.default, grad, [4, 5, 6], 2, 3, 3)


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool])
def test_reads_at_places(dtype: torch.dtype) -> None:
    x, scalar = tensor(4, 5, dtype=dtype), tensor(dtype=dtype)
    agrees(aten.gather.default, scalar, 0, torch.zeros([1], dtype=torch.int64))
    agrees(aten.gather.default, scalar, 0, torch.zeros([], dtype=torch.int64))
    agrees(aten.gather.default, scalar, -1, torch.zeros([0], dtype=torch.int64))
    agrees(aten.index_select.default, scalar, 0, torch.zeros([1], dtype=torch.int64))
    agrees(aten.index_select.default, x, -1, torch.tensor(2))
    agrees(aten.take.default, x, torch.tensor([[0, -1], [19, -20]]))
    agrees(aten.take.default, scalar, torch.tensor(0))


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool])
@pytest.mark.parametrize("accumulate", [False, True])
def test_writes_at_places(dtype: torch.dtype, accumulate: bool) -> None:
    x = tensor(4, 5, 3, dtype=dtype)
    rows, columns = torch.tensor([0, -1, 2]), torch.tensor([[4], [-2]])
    value = tensor(dtype=dtype, seed=2)
    put = aten.index_put.default
    agrees(put, x, [rows], tensor(3, 5, 3, dtype=dtype, seed=2), accumulate)
    agrees(put, x, [None, rows], tensor(3, 1, dtype=dtype, seed=2), accumulate)
    agrees(put, x, [rows, columns], tensor(2, 3, 3, dtype=dtype, seed=2), accumulate)
    agrees(put, x, [rows, None, rows.abs()], tensor(3, 5, dtype=dtype, seed=2), accumulate)
    agrees(put, x, [torch.zeros([0], dtype=torch.int64)], tensor(0, 5, 3, dtype=dtype), accumulate)
    mask = tensor(4, 5, dtype=torch.bool)
    agrees(put, x, [mask], value, accumulate)
    agrees(put, x, [mask], tensor(3, dtype=dtype, seed=2), accumulate)
    agrees(put, x, [mask], tensor(int(mask.sum()), 3, dtype=dtype, seed=2), accumulate)
    agrees(aten.put.default, x, torch.tensor([3, -1]), tensor(2, dtype=dtype, seed=2), accumulate)


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool])
def test_masked_scatter(dtype: torch.dtype) -> None:
    x, mask, source = (
        tensor(4, 5, dtype=dtype),
        tensor(4, 5, dtype=torch.bool),
        tensor(4, 5, dtype=dtype, seed=2),
    )
    agrees(aten.masked_scatter.default, x, mask, source)
    agrees(aten.masked_scatter.default, x, mask[:1], source)
    agrees(aten.masked_scatter.default, x, torch.tensor(True), source)
    agrees(aten.masked_scatter.default, x, torch.zeros_like(mask), source[:0])
    if dtype.is_floating_point:
        agrees(aten.masked_scatter_backward.default, x, mask, [4, 6])
        agrees(aten.masked_scatter_backward.default, x, mask, [int(mask.sum())])


def test_nonzero_of_a_known_count() -> None:
    x = torch.tensor([[0, 2, 0], [1, 0, 3]])
    for size in (1, 3, 5):
        agrees(aten.nonzero_static.default, x, size=size)
    agrees(aten.nonzero_static.default, x, size=6, fill_value=7)
    agrees(aten.nonzero_static.default, x != 0, size=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(dtype: torch.dtype, reduce: str, include_self: bool) -> None:
    x, index = tensor(4, 5, dtype=dtype), places(3, 5, below=4)
    source = tensor(3, 6, dtype=dtype, seed=2)
    agrees(aten.scatter_reduce.two, x, 0, index, source, reduce, include_self=include_self)
    agrees(aten.scatter_reduce.two, x, -1, index[:, :2], source, reduce, include_self=include_self)
    scalar = tensor(dtype=dtype)
    agrees(aten.scatter_reduce.two, scalar, 0, torch.tensor(0), scalar, reduce, include_self=include_self)
    if reduce != "sum":
        rows = torch.tensor([0, 2, 0])
        agrees(aten.index_reduce.default, x, 0, rows, source[:, :5], reduce, include_self=include_self)


def test_histogram() -> None:
    x = torch.cat([tensor(200), torch.tensor([1.0, -1.0, NAN])])
    agrees(aten.histc.default, x, 7, -1, 1)
    agrees(aten.histc.default, x[:-1], 7)
    agrees(aten.histc.default, torch.ones(3), 4)


LINEAR = {1: "upsample_linear1d", 2: "upsample_bilinear2d", 3: "upsample_trilinear3d"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("counts", [[3], [9], [3, 8], [7, 4], [1, 1], [2, 3, 9]])
def test_resampling(dtype: torch.dtype, counts: list[int]) -> None:
    dims = len(counts)
    x, grad = tensor(2, 3, *[5] * dims, dtype=dtype), tensor(2, 3, *counts, dtype=dtype)
    sizes = list(x.shape)
    smooth = [LINEAR[dims]] + (["upsample_bicubic2d"] if dims == 2 else [])
    for name, align in ((name, align) for name in smooth for align in (False, True)):
        agrees(getattr(aten, name).default, x, counts, align)
        agrees(getattr(aten, f"{name}_backward").default, grad, counts, sizes, align, atol=1e-4)
    for name in (f"upsample_nearest{dims}d", f"_upsample_nearest_exact{dims}d"):
        agrees(getattr(aten, name).default, x, counts)
        agrees(getattr(aten, f"{name}_backward").default, grad, counts, sizes)


def test_resampling_by_given_scales() -> None:
    x = tensor(1, 2, 5, 4)
    agrees(aten.upsample_bilinear2d.default, x, [12, 7], False, 2.5, 1.9)
    agrees(aten.upsample_nearest2d.default, x, [12, 7], 2.5, 1.9)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("align", [False, True])
def test_grid_sampling(mode: int, padding: int, align: bool) -> None:
    x, grid, grad = tensor(2, 3, 4, 5), 1.3 * tensor(2, 3, 2, 2), tensor(2, 3, 3, 2)
    agrees(
        aten.grid_sampler_2d_backward.default, grad, x, grid, mode, padding, align, [True, True], atol=1e-4
    )
    if mode == 2:
        return  # cubic sampling is for planes
    x, grid, grad = tensor(2, 3, 4, 5, 3), 1.3 * tensor(2, 3, 2, 2, 3), tensor(2, 3, 3, 2, 2)
    agrees(aten.grid_sampler_3d.default, x, grid, mode, padding, align)
    agrees(
        aten.grid_sampler_3d_backward.default, grad, x, grid, mode, padding, align, [True, True], atol=1e-4
    )


REAL = torch.cat([torch.linspace(-9.3, 20, 300), torch.tensor([0.0, 0.5, 1, 2, -1, -2, 5, 8, INF, NAN])])
UNARY = [
    "digamma",
    "erfc",
    "i0",
    "special_i0e",
    "special_i1",
    "special_i1e",
    "special_log_ndtr",
    "special_modified_bessel_i0",
    "special_modified_bessel_i1",
    "special_modified_bessel_k0",
    "special_modified_bessel_k1",
    "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1",
    "special_bessel_j0",
    "special_bessel_j1",
    "special_bessel_y0",
    "special_bessel_y1",
    "special_spherical_bessel_j0",
    "lgamma",
]


@pytest.mark.parametrize("name", UNARY)
def test_special_functions(name: str) -> None:
    overload = getattr(aten, name).default
    # XLA and the CPU's kernels have no Bessel function of infinity in common.
    x = REAL[REAL.isfinite() | REAL.isnan()] if "bessel" in name else REAL
    agrees(overload, x, rtol=1e-4)
    agrees(overload, torch.tensor([1, 2, 7]))
    agrees(overload, torch.tensor(True), rtol=1e-4)
    agrees(overload, torch.zeros([0]))
    if not name.startswith("special_") or name in ("special_i0e", "special_i1", "special_i1e"):
        agrees(overload, REAL[100:200].bfloat16())


def test_functions_of_a_bounded_argument() -> None:
    y = torch.cat([torch.linspace(-1.1, 1.1, 201), torch.tensor([0.0, 1, -1, NAN])])
    for name in ("erfinv", "special_ndtri"):
        agrees(getattr(aten, name).default, y, rtol=1e-4)
    agrees(aten.special_erfcx.default, torch.linspace(-5, 40, 100), rtol=1e-4)


def test_polygamma_and_zeta() -> None:
    x = torch.cat([torch.linspace(-4.9, 9, 97), torch.tensor([0.0, 1, 30])])
    for n in range(5):
        agrees(aten.polygamma.default, n, x, rtol=1e-3)
    for order in (0.5, 1.0, 1.5, 2.0, 7.0):
        agrees(aten.special_zeta.default, torch.tensor(order), x, rtol=1e-3)
    agrees(aten.mvlgamma.default, torch.linspace(3, 9, 20), 4, rtol=1e-4)


@pytest.mark.parametrize("family", ["t", "u", "v", "w"])
@pytest.mark.parametrize("prefix", ["", "shifted_"])
def test_chebyshev_polynomials(family: str, prefix: str) -> None:
    overload = getattr(aten, f"special_{prefix}chebyshev_polynomial_{family}").default
    x = torch.linspace(-1.5, 1.5, 61).unsqueeze(1)
    agrees(overload, x, torch.tensor([-1.0, 0, 1, 2, 5, 9]), rtol=1e-3, atol=1e-2)


def test_numbers_win_over_nan() -> None:
    x, y = torch.tensor([1.0, NAN, 3.0, NAN, -INF]), torch.tensor([2.0, 1.0, NAN, NAN, 0.0])
    for overload in (aten.fmax.default, aten.fmin.default):
        agrees(overload, x, y)
        agrees(overload, x, torch.tensor(0.5))
        agrees(overload, tensor(4, 1, dtype=torch.int64), tensor(3, dtype=torch.int64, seed=2))
        agrees(overload, tensor(4, dtype=torch.bool), tensor(4, dtype=torch.bool, seed=2))


def test_elementwise() -> None:
    x, y = tensor(4, 5), tensor(5, seed=2)
    agrees(aten.hypot.default, x, y)
    agrees(aten.hypot.default, torch.tensor([3e38, 0.0, INF]), torch.tensor([3e37, 0.0, NAN]))
    for value in (x, torch.tensor([NAN, -0.0]), tensor(3, dtype=torch.int64), torch.tensor(True)):
        agrees(aten.angle.default, value)
    left, right = torch.arange(-9, 12).unsqueeze(1), torch.tensor([0, 4, -6, 35])
    for dtype in (torch.int32, torch.int64):
        agrees(aten.gcd.default, left.to(dtype), right.to(dtype))
        agrees(aten.lcm.default, left.to(dtype), right.to(dtype))
    for divisor in (4, -3):
        agrees(aten.fmod.Scalar, left, divisor)
        agrees(aten.remainder.Scalar, left, divisor)
    agrees(aten.copysign.Tensor, torch.tensor([True, False]), torch.tensor([True]))
    agrees(aten.copysign.Tensor, torch.tensor([True, False]), torch.tensor(-2.0))
    agrees(aten.hardshrink_backward.default, x, y.expand(4, 5), 0.5)
    agrees(aten.softshrink_backward.default, x, y.expand(4, 5), 0.5)
    agrees(aten.linalg_cross.default, tensor(2, 3, 4), tensor(1, 3, 4, seed=2), dim=1)
    agrees(aten.addbmm.default, x, tensor(2, 4, 3), tensor(2, 3, 5), beta=0.5, alpha=2)
    agrees(aten.rrelu_with_noise_backward.default, x, x, x, 0.1, 0.3, False, False)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, INF])
def test_distances(p: float) -> None:
    x, y = tensor(2, 4, 3), tensor(2, 5, 3, seed=2)
    agrees(aten.dist.default, x, x * 2, p)
    agrees(aten._cdist_forward.default, x, y, p, None)
    distances = aten._cdist_forward(x, y, p, None)
    agrees(aten._cdist_backward.default, tensor(2, 4, 5), x, y, p, distances)


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.bool])
@pytest.mark.parametrize("dim", [0, -1])
def test_ordering(dtype: torch.dtype, dim: int) -> None:
    x = tensor(6, 7, dtype=dtype)
    for descending in (False, True):
        agrees(aten.sort.stable, x, stable=True, dim=dim, descending=descending)
    agrees(aten.sort.stable, x[0, 0], stable=True)
    agrees(aten.cummax.default, x, dim)
    agrees(aten.cummin.default, x, dim)
    if dtype == torch.bool:
        return
    for k in (1, 4):  # among equals any place will do: compare values
        assert REWRITES[aten.kthvalue.default](x, k, dim)[0].equal(torch.kthvalue(x, k, dim)[0])
    assert REWRITES[aten.median.dim](x, dim, True)[0].equal(torch.median(x, dim, True)[0])
    assert REWRITES[aten.mode.default](x, dim)[0].equal(torch.mode(x, dim)[0])
    agrees(aten.median.default, x)


def test_ordering_of_nan() -> None:
    x = torch.tensor([[3.0, NAN, 1.0, 2.0], [1.0, 1.0, 4.0, -INF]])
    for descending in (False, True):
        agrees(aten.sort.stable, x, stable=True, dim=1, descending=descending)
    for name in ("cummax", "cummin"):
        agrees(getattr(aten, name).default, x, 1)
    agrees(aten.median.dim, x, 1)
    agrees(aten.nanmedian.dim, x, 1)
    agrees(aten.nanmedian.default, x)
    agrees(aten.median.default, x)
    agrees(aten.logcumsumexp.default, torch.tensor([-INF, -INF, 1.0, 200.0, INF]), 0)
    agrees(aten.logcumsumexp.default, tensor(4, 9), -1)


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pooling(dims: int, ceil_mode: bool, dtype: torch.dtype) -> None:
    x = tensor(2, 3, *[5, 6, 7][:dims], dtype=dtype)
    windows = [numbers[:dims] for numbers in ([3, 2, 2], [2, 2, 1], [1, 0, 1])]
    maximum, backward, mean, mean_backward = (
        getattr(aten, name.format(dims)).default
        for name in (
            "max_pool{}d_with_indices",
            "max_pool{}d_with_indices_backward",
            "avg_pool{}d",
            "avg_pool{}d_backward",
        )
    )
    arguments = (*windows, [1, 2, 1][:dims], ceil_mode)
    agrees(maximum, x, *arguments)
    agrees(maximum, x, 2)
    value, where = maximum(x, *arguments)
    agrees(backward, value, x, *arguments, where)
    for include, divisor in itertools.product((False, True), (None, 3)) if dtype == torch.float32 else ():
        agrees(mean, x, *windows, ceil_mode, include, divisor)
        grad = mean(x, *windows, ceil_mode, include, divisor)
        agrees(mean_backward, grad, x, *windows, ceil_mode, include, divisor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adaptive_pooling(dtype: torch.dtype) -> None:
    x = tensor(2, 3, 5, 6, 7, dtype=dtype)
    agrees(aten._adaptive_avg_pool3d.default, x, [2, 3, 8])
    agrees(aten._adaptive_avg_pool3d_backward.default, tensor(2, 3, 2, 3, 8, dtype=dtype), x)
    agrees(
        aten._adaptive_avg_pool2d_backward.default,
        tensor(3, 5, 3, 8, dtype=dtype),
        tensor(3, 5, 6, 7, dtype=dtype),
    )
    if dtype == torch.float32:
        agrees(aten.adaptive_max_pool3d.default, x, [2, 3, 7])
        value, where = aten.adaptive_max_pool3d(x, [2, 3, 7])
        agrees(aten.adaptive_max_pool3d_backward.default, value, x, where)


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 5), (1, 1)])
def test_factorisations(shape: tuple[int, ...]) -> None:
    x, right = tensor(*shape), tensor(*shape[:-1], 3)
    for upper, unit in ((False, False), (True, True)):
        agrees(aten.linalg_solve_triangular.default, x, right, upper=upper, unitriangular=unit, atol=1e-2)
    agrees(aten.linalg_lu_factor_ex.default, x, atol=1e-4)
    agrees(aten.linalg_lu.default, x, atol=1e-4)
    agrees(aten.linalg_inv_ex.default, x, atol=1e-3)
    agrees(aten._linalg_solve_ex.default, x, right, atol=1e-3)
    lu, pivots, _ = aten.linalg_lu_factor_ex(x)
    for adjoint in (False, True):
        agrees(aten.linalg_lu_solve.default, lu, pivots, right, adjoint=adjoint, atol=1e-3)
    agrees(aten.lu_unpack.default, lu, pivots)
    agrees(aten.linalg_qr.default, x, atol=1e-4)
    positive = x @ x.transpose(-2, -1) + torch.eye(shape[-1])
    for upper in (False, True):
        agrees(aten.linalg_cholesky_ex.default, positive, upper=upper, atol=1e-4)
    for ours, theirs in zip(REWRITES[aten._linalg_det.default](x)[:1], aten._linalg_det(x), strict=False):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_factorisations_say_what_is_singular() -> None:
    agrees(aten.linalg_lu_factor_ex.default, torch.zeros(3, 3))
    assert REWRITES[aten.linalg_cholesky_ex.default](-torch.eye(3))[1] == 1


def test_replication_padding_goes_back() -> None:
    x = tensor(2, 3, 4)
    for padding in ([1, 2], [-1, 2]):
        grad = aten.replication_pad1d(x, padding)
        agrees(aten.replication_pad1d_backward.default, grad, x, padding)


@pytest.mark.parametrize("ends", [[3, 3, 7, 9], [0, 0, 0, 0], [9, 9, 9, 9], [1, 2, 3, 8]])
def test_experts(ends: list[int]) -> None:
    pytest.importorskip("transformers.integrations.moe")
    from torchneuron_backend.compiler.rewrites.experts import foreign_rewrites

    operators = torch.ops.transformers
    x, weights, offsets = tensor(9, 3), tensor(4, 3, 2), torch.tensor(ends, dtype=torch.int32)
    ours = foreign_rewrites()[operators.grouped_mm_fallback.default](x, weights, offsets)
    torch.testing.assert_close(ours, operators.grouped_mm_fallback(x, weights, offsets))
    arguments = (x, weights, offsets, tensor(9, 2))
    ours = foreign_rewrites()[operators.grouped_mm_fallback_backward.default](*arguments)
    torch.testing.assert_close(ours, operators.grouped_mm_fallback_backward(*arguments))


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, INF])
def test_distances_of_all_pairs(p: float) -> None:
    x = torch.cat([tensor(5, 3), tensor(1, 3)])
    x[5] = x[0]
    distances = aten._pdist_forward(x, p)
    agrees(aten._pdist_forward.default, x, p)
    agrees(aten._pdist_forward.default, x[:1], p)
    if p != 1.5:  # there the kernel's gradient of a distance of zero is no number
        agrees(aten._pdist_backward.default, tensor(15, seed=2), x, p, distances)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_margin_losses_go_back(reduction: int) -> None:
    x, target = tensor(4, 5), torch.tensor([0, 4, 2, 2])
    grad = tensor(4, seed=2) if reduction == 0 else tensor(seed=2)
    backward = aten.multi_margin_loss_backward.default
    for p, margin, weight in ((1, 1.0, None), (2, 0.5, tensor(5, seed=3).abs())):
        agrees(backward, grad, x, target, p, margin, weight, reduction)
    labels = torch.tensor([[0, 3, -1, 1, 2], [-1] * 5, [4, 3, 2, 1, 0], [2, -1, 2, -1, 2]])
    _, is_target = aten.multilabel_margin_loss_forward(x, labels, reduction)
    agrees(aten.multilabel_margin_loss_backward.default, grad, x, labels, reduction, is_target)
    one = grad[0] if reduction == 0 else grad
    agrees(backward, one, x[0], target[:1].squeeze(), 1, 1.0, None, reduction)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_segments(reduce: str, initial: float | None) -> None:
    x = tensor(7, 2)
    x[3, 0], x[4, 1], x[5, 1] = 0.0, 0.0, NAN
    offsets = torch.tensor([0, 3, 3, 7])
    for where in ({"lengths": offsets.diff()}, {"offsets": offsets}):
        how = {**where, "axis": 0, "initial": initial}
        agrees(aten.segment_reduce.default, x, reduce, **how, unsafe=True)
        output = aten.segment_reduce(x, reduce, **how, unsafe=True)
        agrees(aten._segment_reduce_backward.default, tensor(3, 2, seed=2), output, x, reduce, **how)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_mantissa_and_exponent(dtype: torch.dtype) -> None:
    powers = torch.tensor([2.0**each for each in range(-24, 15)])
    values = torch.cat([powers, powers * 0.999, -powers * 1.4, torch.tensor([0.0, -0.0, INF, -INF, NAN])])
    extreme = [torch.finfo(dtype).max, torch.finfo(dtype).tiny, torch.finfo(dtype).smallest_normal / 4]
    ours = REWRITES[aten.frexp.Tensor](torch.cat([values, torch.tensor(extreme)]).to(dtype))
    theirs = aten.frexp(torch.cat([values, torch.tensor(extreme)]).to(dtype))
    # What the kernel says of the exponent of what is not finite is not specified.
    finite = theirs[0].isfinite()
    torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(ours[1][finite], theirs[1][finite], rtol=0, atol=0)


def test_hermite_polynomials() -> None:
    x, n = tensor(8, 1) * 3, torch.tensor([-1.0, 0.0, 1.0, 2.0, 2.7, 5.0, 9.0])
    for overload in (aten.special_hermite_polynomial_h.default, aten.special_hermite_polynomial_he.default):
        agrees(overload, x, n)
        agrees(overload, tensor(3) * 1e-3, torch.tensor(130.0))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("counts", [[3, 2], [9, 11], [1, 5]])
def test_antialiased_resampling(counts: list[int], align: bool) -> None:
    x, grad = tensor(2, 3, 7, 8), tensor(2, 3, *counts, seed=2)
    agrees(aten._upsample_bilinear2d_aa.default, x, counts, align)
    agrees(aten._upsample_bilinear2d_aa_backward.default, grad, counts, [2, 3, 7, 8], align)


def test_equality_of_tensors_as_a_tensor() -> None:
    equal = REWRITES[aten.equal.default]
    assert [equal(a, b).item() for a, b in ((tensor(3), tensor(3)), (tensor(3), -tensor(3)))] == [True, False]
    assert not equal(tensor(3), tensor(3, 1))
    assert equal(tensor(0), tensor(0))


def test_batch_norm_that_updates_its_statistics() -> None:
    x, ones = tensor(4, 3, 5), torch.ones(3)
    overload = aten._batch_norm_with_update_functional.default
    agrees(overload, x, ones, 2 * ones, torch.zeros(3), ones, 0.1, 1e-5)
    agrees(overload, x, None, None, torch.zeros(3), ones, 0.1, 1e-5)


@pytest.mark.parametrize("counts", [[1, 1, 1], [3, 2, 3], [4, 5, 4]])
def test_fractional_pooling(counts: list[int]) -> None:
    for dims in (2, 3):
        x = tensor(2, 3, *[7, 9, 8][:dims])
        samples = torch.rand(2, 3, dims, generator=torch.Generator().manual_seed(4))
        overload = (aten.fractional_max_pool2d, aten.fractional_max_pool3d)[dims - 2].default
        agrees(overload, x, [2, 3, 2][:dims], counts[:dims], samples)
        agrees(overload, x[0], [2, 3, 2][:dims], counts[:dims], samples[:1])


@pytest.mark.parametrize("dtype", [*NUMBERS, torch.float16])
def test_searching_in_what_is_sorted(dtype: torch.dtype) -> None:
    rows = tensor(2, 6, dtype=dtype)
    ordered, order = rows.sort(-1)
    values = torch.cat([tensor(2, 3, dtype=dtype, seed=2), ordered[:, 2:4]], -1)
    overload = aten.searchsorted.Tensor
    for how in ({}, {"right": True}, {"side": "right", "out_int32": True}):
        agrees(overload, ordered, values, **how)
        agrees(overload, ordered[0], values, **how)
        agrees(overload, ordered[0], values[0, 0], **how)
        agrees(overload, rows, values, sorter=order, **how)
    agrees(overload, ordered, values[:, :0])


@pytest.mark.parametrize("number", [2.0, -2, 0, -0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool])
def test_copysign_with_a_number(dtype: torch.dtype, number: float) -> None:
    x = torch.tensor([1, 0, -128]).to(dtype)
    agrees(aten.copysign.Scalar, x, number)
    signs = [f(x, number).signbit() for f in (REWRITES[aten.copysign.Scalar], aten.copysign.Scalar)]
    assert torch.equal(*signs)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_shifts_and_remainders_by_numbers(dtype: torch.dtype) -> None:
    x = torch.tensor([7, 5, 100, 1]).to(dtype)
    for overload in (aten.__rshift__.Scalar, aten.__lshift__.Scalar, aten.bitwise_right_shift.Tensor_Scalar):
        agrees(overload, x, 2)
    agrees(aten.bitwise_left_shift.Scalar_Tensor, 1, x % 3)
    for overload in (aten.__rshift__.Tensor, aten.__lshift__.Tensor):
        agrees(overload, x, x % 3)
    agrees(aten.remainder.Scalar_Tensor, 3, x)
    agrees(aten.remainder.Scalar_Tensor, -3.5, x)
