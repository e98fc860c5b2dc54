"""Operators that move data between host and device rather than compute.

They are recorded like any other, marked in ``v_ops``, and left out of device shares and gaps:
a run that copies more would otherwise look better on the device, or worse.
"""

from __future__ import annotations

DATA_MOVEMENT = frozenset(
    {
        "aten::_copy_from",
        "aten::_copy_from_and_resize",
        "aten::_local_scalar_dense",
        "aten::_pin_memory",
        "aten::_to_copy",
        "aten::_to_cpu",
        "aten::copy_",
    }
)
"""Executed overloads, as the dispatcher names them."""
