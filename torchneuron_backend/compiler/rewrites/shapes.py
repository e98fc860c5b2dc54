"""Slices written back, and the copying forms of views."""

from __future__ import annotations

from typing import Any

import torch

from .registry import aten, rewrites


@rewrites(aten.slice_backward.default)
def _slice_backward(
    grad: torch.Tensor, sizes: list[int], dim: int, start: int, end: int, step: int
) -> torch.Tensor:
    """Zeros of ``sizes`` with ``grad`` where the slice was."""
    start, _ = _bounds(sizes[dim], start, end)
    return spread(grad, sizes[dim], dim % len(sizes), start, step)


@rewrites(aten.select_backward.default)
def _select_backward(grad: torch.Tensor, sizes: list[int], dim: int, index: int) -> torch.Tensor:
    dim %= len(sizes)
    return spread(grad.unsqueeze(dim), sizes[dim], dim, index % sizes[dim], 1)


@rewrites(aten.slice_scatter.default)
def _slice_scatter(
    tensor: torch.Tensor,
    source: torch.Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> torch.Tensor:
    dim %= tensor.ndim
    size = tensor.shape[dim]
    first, last = _bounds(size, start, end)
    source = source.to(tensor.dtype)
    if source.shape[dim] == 0:
        return tensor.clone()
    if step == 1:
        return torch.cat([tensor.narrow(dim, 0, first), source, tensor.narrow(dim, last, size - last)], dim)
    chosen = spread(torch.ones_like(source, dtype=torch.int32), size, dim, first, step) > 0
    return torch.where(chosen, spread(source, size, dim, first, step), tensor)


@rewrites(aten.select_scatter.default)
def _select_scatter(tensor: torch.Tensor, source: torch.Tensor, dim: int, index: int) -> torch.Tensor:
    dim %= tensor.ndim
    index %= tensor.shape[dim]
    return _slice_scatter(tensor, source.unsqueeze(dim), dim, index, index + 1)


def _bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Python's own reading of slice bounds."""
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


def spread(tensor: torch.Tensor, size: int, dim: int, start: int, step: int) -> torch.Tensor:
    """``tensor`` along ``dim`` at start, start + step, …; zeros elsewhere up to ``size``."""
    count = tensor.shape[dim]
    if step > 1 and count:
        # A row of zeros after each element, then as one dimension again.
        padding = [0, 0] * (tensor.ndim - dim - 1) + [0, step - 1]
        tensor = aten.constant_pad_nd(tensor.unsqueeze(dim + 1), padding).flatten(dim, dim + 1)
        tensor = tensor.narrow(dim, 0, (count - 1) * step + 1)
    padding = [0, 0] * (tensor.ndim - dim - 1) + [start, size - start - tensor.shape[dim]]
    return aten.constant_pad_nd(tensor, padding)


@rewrites(aten.roll.default)
def _roll(tensor: torch.Tensor, shifts: list[int], dims: list[int] = ()) -> torch.Tensor:  # type: ignore[assignment]
    if not dims:
        return _roll(tensor.reshape(-1), shifts, [0]).reshape(tensor.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = tensor.shape[dim] if tensor.ndim else 1
        shift %= max(size, 1)
        if shift:
            pieces = [tensor.narrow(dim, size - shift, shift), tensor.narrow(dim, 0, size - shift)]
            tensor = torch.cat(pieces, dim)
    return tensor.clone()


@rewrites(aten.diagonal.default, aten.diagonal_copy.default)
def _diagonal(tensor: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> torch.Tensor:
    """Every (n + 1)th element of the n x n square that starts at the diagonal's first element."""
    matrix = tensor.movedim((dim1, dim2), (-2, -1))
    row, column = max(-offset, 0), max(offset, 0)
    size = max(0, min(matrix.shape[-2] - row, matrix.shape[-1] - column))
    square = matrix[..., row : row + size, column : column + size]
    return square.reshape([*matrix.shape[:-2], size * size])[..., :: size + 1]


@rewrites(aten.as_strided.default, aten.as_strided_copy.default)
def _as_strided(
    tensor: torch.Tensor, size: list[int], stride: list[int], storage_offset: int | None = None
) -> Any:
    places = _places(tensor, size, stride, storage_offset or 0)
    return NotImplemented if places is None else tensor.reshape(-1).index_select(0, places).reshape(size)


@rewrites(aten.as_strided_scatter.default)
def _as_strided_scatter(
    tensor: torch.Tensor,
    source: torch.Tensor,
    size: list[int],
    stride: list[int],
    storage_offset: int | None = None,
) -> Any:
    places = _places(tensor, size, stride, storage_offset or 0)
    if places is None:
        return NotImplemented
    return tensor.reshape(-1).scatter(0, places, source.reshape(-1)).reshape(tensor.shape)


def _places(tensor: torch.Tensor, size: list[int], stride: list[int], offset: int) -> torch.Tensor | None:
    """Positions of a strided view's elements, where memory order is known: in a dense tensor alone in its
    memory. None elsewhere.
    """
    last = offset + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
    if not tensor.is_contiguous() or tensor.storage_offset() or last >= tensor.numel() or 0 in size:
        return None
    places = torch.full([1] * max(1, len(size)), offset, dtype=torch.int64)
    for dim, (count, step) in enumerate(zip(size, stride, strict=True)):
        shape = [count if each == dim else 1 for each in range(len(size))]
        places = places + torch.arange(count).reshape(shape) * step
    return places.reshape(-1)
