"""What is taken apart before lowering: by PyTorch's decompositions, and by ours where those do not do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .higher_order import flex_rewrites
from .optimizers import list_rewrites, multiply_add_rewrite
from .rewrites import REWRITES
from .rewrites.experts import foreign_rewrites
from .rewrites.registry import first_of
from .rewrites.rounding import ROUNDED_ONCE, in_float32


def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """Decompositions by overload, for ``make_fx``."""
    table = _aten_table()
    # Operators of other libraries exist from the moment that these are imported.
    table.update(foreign_rewrites() | flex_rewrites() | multiply_add_rewrite())
    return table


@functools.cache
def _aten_table() -> dict[Any, Callable[..., Any]]:
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    table = dict(get_decomposition_table()) | list_rewrites()
    for overload, rewrite in REWRITES.items():
        table[overload] = first_of(rewrite, table.get(overload))
    for overload in ROUNDED_ONCE:
        table[overload] = first_of(in_float32(overload), table.get(overload))
    return table
