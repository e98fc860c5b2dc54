"""Views and their copies, backward too, as slices, pads and gathers of dense tensors."""

from __future__ import annotations

from typing import Any

import torch

from .registry import aten, rewrites


@rewrites(aten.view_copy.default)
def _view_copy(tensor: torch.Tensor, size: list[int]) -> torch.Tensor:
    return tensor.reshape(size).clone()


@rewrites(aten.permute_copy.default)
def _permute_copy(tensor: torch.Tensor, dims: list[int]) -> torch.Tensor:
    return tensor.permute(dims).clone(memory_format=torch.contiguous_format)


@rewrites(aten.narrow_copy.default)
def _narrow_copy(tensor: torch.Tensor, dim: int, start: int, length: int) -> torch.Tensor:
    dim %= tensor.ndim
    start = start + tensor.shape[dim] if start < 0 else start
    return aten.slice(tensor, dim, start, start + length).clone()


@rewrites(aten.unbind_copy.int)
def _unbind_copy(tensor: torch.Tensor, dim: int = 0) -> list[torch.Tensor]:
    return [tensor.select(dim, index).clone() for index in range(tensor.shape[dim])]


@rewrites(aten.resize.default)
def _resize(tensor: torch.Tensor, size: list[int], *, memory_format: Any = None) -> torch.Tensor:
    """The first elements in memory order; what is more than there were is zero here."""
    count = 1
    for each in size:
        count *= each
    flat = tensor.reshape(-1)
    if count > flat.shape[0]:
        flat = aten.constant_pad_nd(flat, [0, count - flat.shape[0]])
    return flat[:count].reshape(size).clone()


@rewrites(aten.resize_as.default)
def _resize_as(tensor: torch.Tensor, other: torch.Tensor, *, memory_format: Any = None) -> torch.Tensor:
    return _resize(tensor, list(other.shape))


@rewrites(aten.empty_permuted.default)
def _empty_permuted(
    size: list[int], layout: list[int], *, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return torch.zeros(size, dtype=dtype)


@rewrites(aten.unfold.default, aten.unfold_copy.default)
def _unfold(tensor: torch.Tensor, dim: int, size: int, step: int) -> torch.Tensor:
    """Windows of ``size`` every ``step`` along ``dim``, their elements as a last dimension."""
    if tensor.ndim == 0:
        return tensor.reshape(1)[:size].clone()
    dim %= tensor.ndim
    count = (tensor.shape[dim] - size) // step + 1
    places = (torch.arange(count) * step).unsqueeze(1) + torch.arange(size)
    windows = tensor.index_select(dim, places.reshape(-1)).unflatten(dim, (count, size))
    return windows.movedim(dim + 1, -1).clone(memory_format=torch.contiguous_format)


@rewrites(aten.unfold_backward.default)
def _unfold_backward(grad: torch.Tensor, sizes: list[int], dim: int, size: int, step: int) -> torch.Tensor:
    """Each element collects from the windows that hold it."""
    if not sizes:
        return grad.reshape(-1).sum().reshape(())
    dim %= len(sizes)
    count = grad.shape[dim]
    places = (torch.arange(count) * step).unsqueeze(1) + torch.arange(size)
    pieces = grad.float().movedim(-1, dim + 1).flatten(dim, dim + 1)
    zeros = torch.zeros(sizes, dtype=torch.float32)
    return zeros.index_add(dim, places.reshape(-1), pieces).to(grad.dtype)


def _diagonal_mask(rows: int, columns: int, offset: int) -> torch.Tensor:
    return torch.arange(columns) - torch.arange(rows).unsqueeze(1) == offset


def _place_diagonal(
    source: torch.Tensor, sizes: list[int], offset: int, dim1: int, dim2: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """``source`` on the diagonal of ``sizes`` (elsewhere undefined), and where that is; both with the two
    dimensions last.
    """
    dim1, dim2 = dim1 % len(sizes), dim2 % len(sizes)
    rows, columns = sizes[dim1], sizes[dim2]
    # Column j of the diagonal holds its element j - offset, or, below the main one, j.
    before = max(offset, 0)
    padded = aten.constant_pad_nd(source, [before, columns - before - source.shape[-1]])
    wide = padded.unsqueeze(-2).expand([*source.shape[:-1], rows, columns])
    return wide, _diagonal_mask(rows, columns, offset)


@rewrites(aten.diagonal_scatter.default)
def _diagonal_scatter(
    tensor: torch.Tensor, source: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    wide, where = _place_diagonal(source, list(tensor.shape), offset, dim1, dim2)
    result = torch.where(where, wide.to(tensor.dtype), tensor.movedim((dim1, dim2), (-2, -1)))
    return result.movedim((-2, -1), (dim1, dim2)).clone(memory_format=torch.contiguous_format)


@rewrites(aten.diagonal_backward.default)
def _diagonal_backward(
    grad: torch.Tensor, sizes: list[int], offset: int, dim1: int, dim2: int
) -> torch.Tensor:
    wide, where = _place_diagonal(grad, sizes, offset, dim1, dim2)
    result = torch.where(where, wide, torch.zeros_like(wide))
    return result.movedim((-2, -1), (dim1, dim2)).clone(memory_format=torch.contiguous_format)
