"""How operators that Torch-MLIR cannot lower are computed from operators that it can.

A rewrite stands in PyTorch's decomposition table in place of the entry that was there. Each gives the
operator's documented result; the lowering probe checks it against the CPU.
"""

from . import (
    arithmetic,
    attention,
    convolution,
    creation,
    elementwise,
    experts,
    factorisations,
    indexing,
    interpolation,
    normalisation,
    ordering,
    polynomials,
    pooling,
    quotients,
    recurrent,
    reductions,
    rounding,
    sampling,
    shapes,
    special,
    views,
    volumes,
)
from .registry import REWRITES

__all__ = [
    "REWRITES",
    "arithmetic",
    "attention",
    "convolution",
    "creation",
    "elementwise",
    "experts",
    "factorisations",
    "indexing",
    "interpolation",
    "normalisation",
    "ordering",
    "polynomials",
    "pooling",
    "quotients",
    "recurrent",
    "reductions",
    "rounding",
    "sampling",
    "shapes",
    "special",
    "views",
    "volumes",
]
