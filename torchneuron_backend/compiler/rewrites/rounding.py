"""What the CPU computes in float32 for two-byte floats, and rounds once.

Taken apart, such an operator rounds after each of its steps; where it cancels or jumps (a remainder, the
logarithm of something close to one) the result is another number altogether.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only

from .registry import aten

ROUNDED_ONCE = (
    aten.fmod.Tensor,
    aten.fmod.Scalar,
    aten.remainder.Tensor,
    aten.remainder.Scalar,
    aten._log_softmax.default,
    aten.addbmm.default,
    aten.convolution.default,
    aten.gelu.default,
)

_HALVES = (torch.bfloat16, torch.float16)


def in_float32(overload: Any) -> Callable[..., Any]:
    """``overload`` computed in float32 where its floats are of one two-byte dtype, else NotImplemented."""

    def computed(*args: Any, **kwargs: Any) -> Any:
        leaves = tree_flatten((args, kwargs))[0]
        dtypes = {leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)}
        floats = {dtype for dtype in dtypes if dtype.is_floating_point}
        if len(floats) != 1 or not floats <= set(_HALVES):
            return NotImplemented
        (half,) = floats
        args, kwargs = tree_map_only(
            torch.Tensor, lambda x: x.float() if x.dtype == half else x, (args, kwargs)
        )
        return overload(*args, **kwargs).to(half)

    return computed
