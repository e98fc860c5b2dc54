"""Reads and writes at computed positions, as gathers and scatters along one dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .reductions import _HALVES
from .registry import aten, rewrites


@rewrites(aten.gather.default)
def _gather(tensor: torch.Tensor, dim: int, index: torch.Tensor, *, sparse_grad: bool = False) -> Any:
    if tensor.ndim and index.ndim and index.dtype == torch.int64:
        return NotImplemented
    if index.numel() == 0:
        return tensor.new_zeros(index.shape)
    wide = tensor.reshape(1) if tensor.ndim == 0 else tensor
    places = index.to(torch.int64).reshape(1) if index.ndim == 0 else index.to(torch.int64)
    return aten.gather(wide, dim, places).reshape(index.shape)


@rewrites(aten.index_select.default)
def _index_select(tensor: torch.Tensor, dim: int, index: torch.Tensor) -> Any:
    if tensor.ndim == 0:
        return tensor.clone()
    if index.ndim == 0:
        return tensor.index_select(dim, index.reshape(1))
    return NotImplemented


@rewrites(aten.take.default)
def _take(tensor: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    flat, places = tensor.reshape(-1), index.reshape(-1)
    places = torch.where(places < 0, places + flat.shape[0], places)
    return flat.index_select(0, places).reshape(index.shape)


@rewrites(aten.put.default)
def _put(
    tensor: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    flat, places = tensor.reshape(-1), index.reshape(-1)
    places = torch.where(places < 0, places + flat.shape[0], places)
    return _write(flat, places, source.reshape(-1), accumulate).reshape(tensor.shape)


def _write(flat: torch.Tensor, places: torch.Tensor, values: torch.Tensor, accumulate: bool) -> torch.Tensor:
    """Write one-dimensional ``values`` at ``places``, which are not negative."""
    if places.shape[0] == 0:
        return flat.clone()
    if not accumulate:
        return flat.scatter(0, places, values)
    if flat.dtype == torch.bool:
        total = flat.to(torch.int32).scatter_add(0, places, values.to(torch.int32))
        return total != 0
    if flat.dtype in _HALVES:
        return flat.float().scatter_add(0, places, values.float()).to(flat.dtype)
    return flat.scatter_add(0, places, values)


@rewrites(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(
    tensor: torch.Tensor, indices: list[torch.Tensor | None], values: torch.Tensor, accumulate: bool = False
) -> Any:
    """Index tensors (all, leading ones or some) become positions in flat memory; a mask becomes a choice
    where the values do not depend on how many of it are set.
    """
    given = [index for index in indices if index is not None]
    if any(index.device != tensor.device for index in given):
        return NotImplemented
    if len(given) == 1 and given[0].dtype == torch.bool and indices[0] is given[0]:
        return _put_by_mask(tensor, given[0], values, accumulate)
    if any(index.dtype in (torch.bool, torch.uint8) for index in given):
        return NotImplemented
    return _put_by_places(tensor, indices, values, accumulate)


@rewrites(aten._index_put_impl.default)
def _index_put_impl(
    tensor: torch.Tensor,
    indices: list[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Any:
    return _index_put(tensor, indices, values, accumulate)


def _put_by_mask(tensor: torch.Tensor, mask: torch.Tensor, values: torch.Tensor, accumulate: bool) -> Any:
    inner = tensor.ndim - mask.ndim
    wide = mask.reshape([*mask.shape, *[1] * inner])
    if values.ndim <= inner or values.shape[0] == 1:
        shared = values.reshape(values.shape[-inner:] if inner else []).to(tensor.dtype)
        return torch.where(wide, _sum(tensor, shared) if accumulate else shared, tensor)
    # The nth true place takes the nth row of values.
    rank = (mask.reshape(-1).to(torch.int64).cumsum(0) - 1).clamp(0, values.shape[0] - 1)
    picked = values.index_select(0, rank).reshape([*mask.shape, *values.shape[1:]])
    picked = picked.expand(tensor.shape).to(tensor.dtype)
    return torch.where(wide, _sum(tensor, picked) if accumulate else picked, tensor)


def _sum(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left | right if left.dtype == torch.bool else left + right


def _put_by_places(
    tensor: torch.Tensor, indices: list[torch.Tensor | None], values: torch.Tensor, accumulate: bool
) -> torch.Tensor:
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    others = [dim for dim in range(tensor.ndim) if dim not in indexed]
    given = torch.broadcast_tensors(*(indices[dim] for dim in indexed))
    shape = list(given[0].shape)
    # Where the result of a read with these indices has their dimensions: in place, or first if apart.
    together = indexed == list(range(indexed[0], indexed[-1] + 1))
    at = indexed[0] if together else 0
    rest = [tensor.shape[dim] for dim in others]
    values = values.to(tensor.dtype).expand([*rest[:at], *shape, *rest[at:]])
    values = values.movedim(list(range(at, at + len(shape))), list(range(len(shape))))
    inner = math.prod(rest)
    places = torch.zeros(shape, dtype=torch.int64)
    for dim, index in zip(indexed, given, strict=True):
        size = tensor.shape[dim]
        index = index.to(torch.int64)
        places = places * size + torch.where(index < 0, index + size, index)
    flat_places = (places.reshape(-1, 1) * inner + torch.arange(inner)).reshape(-1)
    moved = tensor.permute([*indexed, *others])
    written = _write(moved.reshape(-1), flat_places, values.reshape(-1), accumulate).reshape(moved.shape)
    order = [*indexed, *others]
    return written.permute([order.index(dim) for dim in range(tensor.ndim)]).clone(
        memory_format=torch.contiguous_format
    )


@rewrites(aten.masked_scatter.default)
def _masked_scatter(tensor: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """The nth true place takes the nth element of the source."""
    tensor, mask = torch.broadcast_tensors(tensor, mask)
    if source.numel() == 0:
        return tensor.clone(memory_format=torch.contiguous_format)
    rank = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    picked = source.reshape(-1).index_select(0, rank.clamp(0, source.numel() - 1)).reshape(mask.shape)
    return torch.where(mask, picked, tensor)


@rewrites(aten.masked_scatter_backward.default)
def _masked_scatter_backward(grad: torch.Tensor, mask: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """The gradient's elements at true places, in order, then zeros up to ``sizes``."""
    count = math.prod(sizes)
    mask = mask.expand(grad.shape).reshape(-1)
    rank = torch.where(mask, mask.to(torch.int64).cumsum(0) - 1, torch.full(mask.shape, count))
    # What is not wanted goes to a place behind the end.
    zeros = torch.zeros([count + mask.shape[0]], dtype=grad.dtype)
    return zeros.scatter(0, rank, grad.reshape(-1))[:count].reshape(sizes)


@rewrites(aten.nonzero_static.default)
def _nonzero_static(x: torch.Tensor, *, size: int, fill_value: int = -1) -> Any:
    """The nth nonzero element's position goes to row n; what is too much goes behind the end."""
    if x.ndim == 0 or size == 0:
        return torch.full([size, x.ndim], fill_value, dtype=torch.int64)
    flat = (x != 0).reshape(-1)
    count = flat.shape[0]
    rank = torch.where(flat, flat.to(torch.int64).cumsum(0) - 1, torch.full([count], size + count))
    places = torch.full([size + count + 1], -1, dtype=torch.int64).scatter(
        0, rank.clamp(max=size + count), torch.arange(count)
    )[:size]
    columns = []
    for dim in range(x.ndim):
        inner = math.prod(x.shape[dim + 1 :])
        column = torch.div(places, inner, rounding_mode="floor") % x.shape[dim]
        columns.append(torch.where(places < 0, torch.full_like(places, fill_value), column))
    return torch.stack(columns, 1)


_REDUCED: dict[str, tuple[Callable[..., torch.Tensor], Callable[[torch.dtype], float]]] = {
    "amax": (torch.amax, lambda dtype: _limits(dtype)[0]),
    "amin": (torch.amin, lambda dtype: _limits(dtype)[1]),
    "prod": (torch.prod, lambda dtype: 1),
}


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    if dtype == torch.bool:
        return 0, 1
    if dtype.is_floating_point:
        return -math.inf, math.inf
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


@rewrites(aten.scatter_reduce.two)
def _scatter_reduce(
    tensor: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """Sums and means through scatter_add; the others compare each place with each element of the index."""
    if tensor.ndim == 0:
        pieces = tensor.reshape(1), index.reshape(1), source.reshape(1)
        result = _scatter_reduce(pieces[0], 0, *pieces[1:], reduce, include_self=include_self)
        return result.reshape(())
    if index.numel() == 0:
        return tensor.clone()
    dim %= tensor.ndim
    source = source[tuple(slice(0, size) for size in index.shape)]
    kind = torch.float32 if tensor.dtype in _HALVES else tensor.dtype
    kind = torch.int32 if kind == torch.bool else kind
    numbers, values = tensor.to(kind), source.to(kind)
    counts = torch.zeros(tensor.shape, dtype=torch.int64).scatter_add(
        dim, index, torch.ones(index.shape, dtype=torch.int64)
    )
    if reduce in ("sum", "mean"):
        start = numbers if include_self else torch.where(counts > 0, torch.zeros_like(numbers), numbers)
        total = start.scatter_add(dim, index, values)
        if reduce == "mean":
            total = _divided(total, (counts + int(include_self)).clamp(min=1))
        return (total != 0) if tensor.dtype == torch.bool else total.to(tensor.dtype)
    operation, neutral = _REDUCED[reduce]
    # Pad the index up to the tensor in the other dimensions, with places that match none.
    padding = [0, 0] * tensor.ndim
    for each in range(tensor.ndim):
        if each != dim:
            padding[2 * (tensor.ndim - each - 1) + 1] = tensor.shape[each] - index.shape[each]
    wide_index = aten.constant_pad_nd(index, padding, -1).movedim(dim, -1).unsqueeze(-2)
    wide_values = aten.constant_pad_nd(values, padding, 0).movedim(dim, -1).unsqueeze(-2)
    matches = wide_index == torch.arange(tensor.shape[dim]).unsqueeze(1)
    blank = neutral(tensor.dtype if tensor.dtype == torch.bool else kind)
    chosen = torch.where(matches, wide_values, torch.full([], blank, dtype=kind))
    reduced = operation(chosen, -1).to(kind).movedim(-1, dim)
    joined = {"amax": torch.maximum, "amin": torch.minimum, "prod": torch.mul}[reduce](numbers, reduced)
    result = torch.where(counts > 0, joined if include_self else reduced, numbers)
    return (result != 0) if tensor.dtype == torch.bool else result.to(tensor.dtype)


def _divided(total: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    if total.dtype.is_floating_point:
        return total / counts.to(total.dtype)
    return torch.div(total, counts.to(total.dtype), rounding_mode="floor")


@rewrites(aten.scatter.reduce)
def _scatter_with(
    tensor: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, reduce: str
) -> torch.Tensor:
    return _scatter_reduce(tensor, dim, index, source, {"add": "sum", "multiply": "prod"}[reduce])


@rewrites(aten.index_reduce.default)
def _index_reduce(
    tensor: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    if tensor.ndim == 0:
        wide = index.reshape(())
    else:
        shape = [1] * tensor.ndim
        shape[dim] = index.numel()
        wide = index.to(torch.int64).reshape(shape).expand(source.shape)
    return _scatter_reduce(tensor, dim, wide, source, reduce, include_self=include_self)


@rewrites(aten.histc.default)
def _histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """Counts of elements in equal bins; the last bin holds its upper edge."""
    flat = x.reshape(-1).float()
    low, high = torch.full([], float(min)), torch.full([], float(max))
    if min == max and flat.shape[0]:
        low, high = flat.amin(), flat.amax()
    same = low == high
    low, high = torch.where(same, low - 1, low), torch.where(same, high + 1, high)
    inside = (flat >= low) & (flat <= high)
    bin_of = torch.floor((flat - low) / (high - low) * bins)
    bin_of = torch.where(inside, bin_of, torch.zeros_like(bin_of)).clamp(0, bins - 1).to(torch.int64)
    return torch.zeros([bins]).scatter_add(0, bin_of, inside.float()).to(x.dtype)
