"""Resampling of planes and volumes: each output element is a weighted sum of a few input elements along
each dimension, and a gradient goes back by the same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .registry import aten, rewrites

_Taps = list[tuple[torch.Tensor, torch.Tensor]]


def _ratio(size: int, count: int, align_corners: bool, scale: float | None) -> float:
    """Input elements per output element, as ATen/native/UpSample.h has it."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1.0 / scale if scale is not None and scale > 0 else size / count


def _linear(size: int, count: int, align_corners: bool, scale: float | None) -> _Taps:
    ratio = _ratio(size, count, align_corners, scale)
    place = torch.arange(count).float()
    source = place * ratio if align_corners else ((place + 0.5) * ratio - 0.5).clamp(min=0.0)
    first = source.floor().to(torch.int64).clamp(max=size - 1)
    weight = (source - first.float()).clamp(0.0, 1.0)
    return [(first, 1.0 - weight), ((first + 1).clamp(max=size - 1), weight)]


def _cubic(size: int, count: int, align_corners: bool, scale: float | None) -> _Taps:
    """Keys' kernel with a = -0.75 (R. Keys, "Cubic convolution interpolation for digital image processing",
    1981).
    """
    ratio, a = _ratio(size, count, align_corners, scale), -0.75
    place = torch.arange(count).float()
    source = place * ratio if align_corners else (place + 0.5) * ratio - 0.5
    base = source.floor()
    part = source - base
    weights = [
        _outer(part + 1.0, a),
        _inner(part, a),
        _inner(1.0 - part, a),
        _outer(2.0 - part, a),
    ]
    first = base.to(torch.int64) - 1
    return [((first + step).clamp(0, size - 1), weight) for step, weight in enumerate(weights)]


def _inner(x: torch.Tensor, a: float) -> torch.Tensor:
    return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0


def _outer(x: torch.Tensor, a: float) -> torch.Tensor:
    return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a


def _nearest(size: int, count: int, scale: float | None, shift: float) -> _Taps:
    ratio = 1.0 / scale if scale is not None and scale > 0 else size / count
    source = ((torch.arange(count).float() + shift) * ratio).floor()
    return [(source.to(torch.int64).clamp(max=size - 1), torch.ones([count]))]


def _forward(x: torch.Tensor, taps: Sequence[_Taps]) -> torch.Tensor:
    """Resample the last dimensions of ``x``, one set of taps for each."""
    result = x.float()
    for dim, each in enumerate(taps, start=x.ndim - len(taps)):
        shape = [-1] + [1] * (x.ndim - dim - 1)
        pieces = [result.index_select(dim, place) * weight.reshape(shape) for place, weight in each]
        result = sum(pieces[1:], pieces[0])
    return result.to(x.dtype)


def _backward(grad: torch.Tensor, sizes: Sequence[int], taps: Sequence[_Taps]) -> torch.Tensor:
    result = grad.float()
    for dim, each in enumerate(taps, start=grad.ndim - len(taps)):
        shape = [-1] + [1] * (grad.ndim - dim - 1)
        total = torch.zeros([*result.shape[:dim], sizes[dim], *result.shape[dim + 1 :]])
        for place, weight in each:
            total = total.index_add(dim, place, result * weight.reshape(shape))
        result = total
    return result.to(grad.dtype)


def _smooth(overload: Any, backward: Any, make: Callable[..., _Taps], count: int) -> None:
    """Register one linear or cubic family over ``count`` dimensions."""

    def taps(sizes: Sequence[int], counts: list[int], align_corners: bool, scales: Sequence[Any]) -> Any:
        each = [*scales, *[None] * (count - len(scales))]
        pairs = zip(sizes[-count:], counts, each, strict=True)
        return [make(size, wanted, align_corners, scale) for size, wanted, scale in pairs]

    def forward(x: torch.Tensor, counts: list[int], align_corners: bool, *scales: Any, **named: Any) -> Any:
        if not x.dtype.is_floating_point:
            return NotImplemented
        return _forward(x, taps(x.shape, counts, align_corners, [*scales, *named.values()]))

    def gradient(
        grad: torch.Tensor,
        counts: list[int],
        sizes: list[int],
        align_corners: bool,
        *scales: Any,
        **named: Any,
    ) -> torch.Tensor:
        return _backward(grad, sizes, taps(sizes, counts, align_corners, [*scales, *named.values()]))

    rewrites(overload)(forward)
    rewrites(backward)(gradient)


_smooth(aten.upsample_linear1d.default, aten.upsample_linear1d_backward.default, _linear, 1)
_smooth(aten.upsample_bilinear2d.default, aten.upsample_bilinear2d_backward.default, _linear, 2)
_smooth(aten.upsample_trilinear3d.default, aten.upsample_trilinear3d_backward.default, _linear, 3)
_smooth(aten.upsample_bicubic2d.default, aten.upsample_bicubic2d_backward.default, _cubic, 2)


def _steps(overload: Any, backward: Any, shift: float, count: int) -> None:
    """Register one nearest-neighbour family."""

    def taps(sizes: Sequence[int], counts: list[int], scales: Sequence[Any]) -> list[_Taps]:
        each = [*scales, *[None] * (count - len(scales))]
        pairs = zip(sizes[-count:], counts, each, strict=True)
        return [_nearest(size, wanted, scale, shift) for size, wanted, scale in pairs]

    def forward(x: torch.Tensor, counts: list[int], *scales: Any, **named: Any) -> Any:
        result = x
        for dim, each in enumerate(taps(x.shape, counts, [*scales, *named.values()]), start=x.ndim - count):
            result = result.index_select(dim, each[0][0])
        return result

    def gradient(
        grad: torch.Tensor, counts: list[int], sizes: list[int], *scales: Any, **named: Any
    ) -> torch.Tensor:
        return _backward(grad, sizes, taps(sizes, counts, [*scales, *named.values()]))

    rewrites(overload)(forward)
    rewrites(backward)(gradient)


for _dims in (1, 2, 3):
    for _name, _shift in ((f"upsample_nearest{_dims}d", 0.0), (f"_upsample_nearest_exact{_dims}d", 0.5)):
        _steps(getattr(aten, _name).default, getattr(aten, f"{_name}_backward").default, _shift, _dims)


def _triangle(size: int, count: int, align_corners: bool, scale: float | None) -> torch.Tensor:
    """Weights [count, size] of the antialiasing filter: a triangle as wide as an output element where that is
    more than an input element, normalised over the elements that exist.
    """
    ratio = _ratio(size, count, align_corners, scale)
    width = max(ratio, 1.0)
    rows = []
    for place in range(count):
        centre = ratio * (place + 0.5)
        first = max(int(centre - width + 0.5), 0)
        last = min(int(centre + width + 0.5), size)
        row = [0.0] * size
        for each in range(first, last):
            row[each] = max(0.0, 1.0 - abs((each - centre + 0.5) / width))
        total = sum(row)
        rows.append([each / total if total else 0.0 for each in row])
    return torch.tensor(rows, dtype=torch.float32)


@rewrites(aten._upsample_bilinear2d_aa.default)
def _antialiased(
    x: torch.Tensor,
    counts: list[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Any:
    if not x.dtype.is_floating_point:
        return NotImplemented
    down = _triangle(x.shape[-2], counts[0], align_corners, scales_h)
    across = _triangle(x.shape[-1], counts[1], align_corners, scales_w)
    return (down @ (x.float() @ across.T)).to(x.dtype)


@rewrites(aten._upsample_bilinear2d_aa_backward.default)
def _antialiased_backward(
    grad: torch.Tensor,
    counts: list[int],
    sizes: list[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Any:
    down = _triangle(sizes[-2], counts[0], align_corners, scales_h)
    across = _triangle(sizes[-1], counts[1], align_corners, scales_w)
    return (down.T @ (grad.float() @ across)).to(grad.dtype)
