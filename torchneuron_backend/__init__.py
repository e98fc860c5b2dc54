"""The device ``neuron``: a simulated AWS Trainium for PyTorch, by PrivateUse1.

``import torch`` is enough: the entry point ``torch.backends`` calls `_autoload`. Where the real
``torch_neuronx`` is installed this package registers nothing and leaves the name ``neuron`` to it.

What a harness asks of the device beside torch's own interface is here: `op_counters`,
`reset_op_counters`, `start_op_trace`, `take_op_trace`, `stop_op_trace`, `is_native`, `lowerings`,
and the modules `faults` and `memory`.
"""


def _autoload() -> None:
    """Register the device; called by ``import torch``, and harmless when called again."""
    from torchneuron_backend._registration import register

    register()


# Importing torch calls _autoload, so it has to stand above; importing this package alone does the same.
import torch  # noqa: E402, F401

_autoload()

from torchneuron_backend.observe import (  # noqa: E402
    clear_op_tracking,
    get_executed_ops,
    get_fallback_ops,
    is_native,
    lowerings,
    op_counters,
    reset_op_counters,
    start_op_trace,
    stop_op_trace,
    take_op_trace,
)

__all__ = [
    "clear_op_tracking",
    "get_executed_ops",
    "get_fallback_ops",
    "is_native",
    "lowerings",
    "op_counters",
    "reset_op_counters",
    "start_op_trace",
    "stop_op_trace",
    "take_op_trace",
]
