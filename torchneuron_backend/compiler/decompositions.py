"""What PyTorch takes apart before lowering. What it cannot is in `rewrites`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


@functools.cache
def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """Decompositions by overload, for ``make_fx``."""
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    return dict(get_decomposition_table())
