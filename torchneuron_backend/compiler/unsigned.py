"""Comparisons of unsigned integers are said to be that: Torch-MLIR calls all of integers signed, and XLA's
verifier refuses those.
"""

from __future__ import annotations

from typing import Any


def compare_unsigned(module: Any) -> None:
    """Mend each ``stablehlo.compare`` of unsigned integers that is said to be signed, in place.

    Args:
        module: a ``torch_mlir.ir.Module`` of StableHLO.
    """
    from torch_mlir import ir

    found = []

    def look(operation: Any) -> Any:
        if operation.name == "stablehlo.compare" and _of_unsigned(operation):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(look)
        unsigned = ir.Attribute.parse("#stablehlo<comparison_type UNSIGNED>")
        for operation in found:
            operation.attributes["compare_type"] = unsigned


def _of_unsigned(operation: Any) -> bool:
    from torch_mlir import ir

    element = ir.RankedTensorType(operation.operands[0].type).element_type
    return isinstance(element, ir.IntegerType) and element.is_unsigned
