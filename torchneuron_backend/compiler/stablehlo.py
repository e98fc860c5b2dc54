"""Looks through a module of StableHLO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def operations(module: Any, name: str, wanted: Callable[[Any], bool]) -> list[Any]:
    """The operations of a ``torch_mlir.ir.Module`` with this name that are wanted.

    To be called in the module's context.
    """
    from torch_mlir import ir

    found = []

    def look(operation: Any) -> Any:
        if operation.name == name and wanted(operation):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def element_of(value: Any) -> Any:
    """The element type of a ranked tensor."""
    from torch_mlir import ir

    return ir.RankedTensorType(value.type).element_type
