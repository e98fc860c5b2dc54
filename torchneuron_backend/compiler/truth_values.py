"""Truth values that become floating-point numbers do so by way of integers.

XLA takes a truth value converted to a float and multiplied with ``x`` for a choice between ``x`` and 0, also
where ``x`` is infinite or NaN and the product NaN (``AlgebraicSimplifier`` of jaxlib 0.10.2; a division by a
constant is such a product too). It does not look through a conversion to an integer in between.
"""

from __future__ import annotations

from typing import Any

from .stablehlo import element_of, operations


def convert_by_integers(module: Any) -> None:
    """Put an integer between in each ``stablehlo.convert`` of truth values to floats, in place.

    Args:
        module: a ``torch_mlir.ir.Module`` of StableHLO.
    """
    with module.context:
        for operation in operations(module, "stablehlo.convert", _is_truth_to_float):
            _insert_integer(operation)


def _is_truth_to_float(operation: Any) -> bool:
    from torch_mlir import ir

    given, wanted = (element_of(value) for value in (operation.operands[0], operation.results[0]))
    return given == ir.IntegerType.get_signless(1) and isinstance(wanted, ir.FloatType)


def _insert_integer(operation: Any) -> None:
    from torch_mlir import ir

    truth = operation.operands[0]
    with ir.InsertionPoint(operation), operation.location:
        shape = ir.RankedTensorType(truth.type).shape
        kind = ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(32))
        between = ir.Operation.create("stablehlo.convert", results=[kind], operands=[truth])
    operation.operands[0] = between.result
