"""What may have to hold of a call, besides its dtype, for it to lower: a closed list.

An entry of the table names one (``when``) where calls for which it holds are native and some other is not;
csrc/conditions.cpp asks the same of each call on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

Condition = Callable[[tuple[Any, ...], dict[str, Any]], bool]


def _integer_indices(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """No tensor in a list is a mask (bool or uint8), whose true elements would decide on shapes."""
    lists = [value for value in (*args, *kwargs.values()) if isinstance(value, (list, tuple))]
    return not any(item.dtype in (torch.bool, torch.uint8) for value in lists for item in _tensors(value))


def _at_most(rows: int) -> Condition:
    def fits(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return not any(
            tensor.ndim >= 2 and min(tensor.shape[-2:]) > rows
            for tensor in _tensors((*args, *kwargs.values()))
        )

    return fits


def _tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor)]


CONDITIONS: dict[str, Condition] = {
    "integer_indices": _integer_indices,
    # No matrix has more than 128 rows and 128 columns: it is factorised row by row.
    "small_matrices": _at_most(128),
    # No matrix has more than 16 rows and 16 columns: it is diagonalised by rotations.
    "tiny_matrices": _at_most(16),
}


def held(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """The conditions that hold of a call."""
    return tuple(name for name, condition in CONDITIONS.items() if condition(args, kwargs))
