"""What ran where: counters, traces and the lowering table, as a harness reads them.

Rows are per executed kernel: an operator overload with the dtype of its first tensor argument (of its
result, for a factory). ``route`` is ``native`` (on device memory, in place of a NeuronCore) or
``fallback`` (copied to the host, run there, copied back). ``kind`` tells ``compute`` from ``copy``
(``aten::_copy_from``, ``aten::_local_scalar_dense``: data movement) and ``meta`` (allocation, views,
resizing: nothing moves); only ``compute`` rows say anything about operator coverage.
"""

from typing import Any

import torch


def _extension() -> Any:
    from torchneuron_backend._registration import load_extension

    return load_extension()


def op_counters() -> list[dict[str, Any]]:
    """Everything counted since the last reset, sorted by op, dtype and route.

    Each row has ``op``, ``dtype``, ``route``, ``kind``, ``calls``, ``ns`` (nanoseconds in the kernel,
    copies included) and ``bytes`` (that crossed between host and device, or between two devices).
    A kernel that raised is not counted.
    """
    rows: list[dict[str, Any]] = _extension().op_counters()
    return sorted(rows, key=lambda row: (row["op"], row["dtype"], row["route"]))


def reset_op_counters() -> None:
    """Set all counters to zero."""
    _extension().reset_op_counters()


def get_executed_ops() -> set[str]:
    """The names of all operators that computed, on either route, as ``torch_neuronx`` gives them.

    Names of overloads (``"aten::add.Tensor"``) since the last `clear_op_tracking`; copies and allocation
    compute nothing.
    """
    return {row["op"] for row in op_counters() if row["kind"] == "compute" and row["calls"]}


def get_fallback_ops() -> set[str]:
    """Those of `get_executed_ops` that fell back to the host at least once."""
    rows = op_counters()
    return {
        row["op"] for row in rows if row["kind"] == "compute" and row["route"] == "fallback" and row["calls"]
    }


def clear_op_tracking() -> None:
    """Forget them, and with them the counters: the same as `reset_op_counters`."""
    reset_op_counters()


def start_op_trace() -> None:
    """From now on every thread notes the kernels it executes; earlier notes are dropped."""
    _extension().start_op_trace()


def take_op_trace() -> list[tuple[str, str, str]]:
    """The ``(op, dtype, route)`` of each kernel this thread executed since it last asked, in order.

    Of this thread only: under a TorchDispatchMode, taken right after the call, it tells which kernels
    one called operator executed, in the threads of autograd too.
    """
    return [tuple(note) for note in _extension().take_op_trace()]


def stop_op_trace() -> None:
    """Stop noting; what was noted can still be taken."""
    _extension().stop_op_trace()


def is_native(op: str, dtype: torch.dtype) -> bool:
    """Whether overload ``op`` (``"aten::add.Tensor"``) runs on device memory for ``dtype``, whatever else
    its arguments: False for one that is native on a condition (``aten::index.Tensor``, by integer indices).

    By the lowering table, or because the device brings the kernel itself (allocation, views, copies).
    In-place and ``out=`` variants follow their functional form. False for a composite operator
    (``aten::linear``), which runs as its parts, and for a name torch does not know.
    """
    return bool(_extension().is_native(op, dtype))


def lowerings() -> dict[str, Any]:
    """The lowering table this device was registered from; see `torchneuron_backend.tables.read_table`."""
    from torchneuron_backend.tables import read_table

    return read_table()
