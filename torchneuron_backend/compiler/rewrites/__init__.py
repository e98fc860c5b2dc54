"""How operators that Torch-MLIR cannot lower are computed from operators that it can.

A rewrite acts on an overload of the graph itself, before PyTorch's decompositions. Each gives the operator's
documented result; the lowering probe checks it against the CPU.
"""

from . import attention, pooling, shapes
from .registry import REWRITES

__all__ = ["REWRITES", "attention", "pooling", "shapes"]
