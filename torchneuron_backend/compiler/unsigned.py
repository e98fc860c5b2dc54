"""Comparisons of unsigned integers are said to be that: Torch-MLIR calls all of integers signed, and XLA's
verifier refuses those.
"""

from __future__ import annotations

from typing import Any

from .stablehlo import element_of, operations


def compare_unsigned(module: Any) -> None:
    """Mend each ``stablehlo.compare`` of unsigned integers that is said to be signed, in place.

    Args:
        module: a ``torch_mlir.ir.Module`` of StableHLO.
    """
    from torch_mlir import ir

    with module.context:
        unsigned = ir.Attribute.parse("#stablehlo<comparison_type UNSIGNED>")
        for operation in operations(module, "stablehlo.compare", _of_unsigned):
            operation.attributes["compare_type"] = unsigned


def _of_unsigned(operation: Any) -> bool:
    from torch_mlir import ir

    element = element_of(operation.operands[0])
    return isinstance(element, ir.IntegerType) and element.is_unsigned
