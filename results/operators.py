"""Operators that do not compute: those that move data, and those that only say how it lies.

They are recorded like any other and marked in ``v_ops``, but stand in no device share: a run that
copies or views more would otherwise look better on the device. One that falls back to the CPU
although it should only view is a gap like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Role(StrEnum):
    """What an operator is for. Every operator not listed here computes."""

    COMPUTE = "compute"
    MOVEMENT = "movement"
    METADATA = "metadata"


_MOVEMENT = (
    "_copy_from",
    "_copy_from_and_resize",
    "_local_scalar_dense",
    "_pin_memory",
    "_to_copy",
    "copy_",
)
_METADATA = (
    "_lazy_clone",
    "_reshape_alias",
    "as_strided",
    "empty.memory_format",
    "empty_strided",
    "resize_",
    "set_",
    "set_.source_Storage",
    "set_.source_Storage_storage_offset",
    "set_.source_Tensor",
    "unfold",
    "view",
    "view_as_complex",
    "view_as_real",
)

ROLES: Mapping[str, Role] = {
    **{f"aten::{name}": Role.MOVEMENT for name in _MOVEMENT},
    **{f"aten::{name}": Role.METADATA for name in _METADATA},
}
"""Executed overloads, as the dispatcher names them."""

DATA_MOVEMENT = frozenset(op for op, role in ROLES.items() if role is Role.MOVEMENT)
"""The ones that move data."""
