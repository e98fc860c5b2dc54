"""How the device launches work: blocking, or asynchronously on its hardware queue.

Blocking is the default: an operator has run when its call returns. Asynchronously, the host queues work and
goes on; reading a value on the host waits for it, and an error is raised there, by a RuntimeError that names
the operator. docs/device.md ("Streams and events") says what is queued and what is still waited for.

The variable is the real device's: ``NEURON_LAUNCH_BLOCKING=0`` launches asynchronously, ``1`` blocking. The
real device launches asynchronously when it is unset, this one blocking.
"""

import atexit
import os

from torchneuron_backend._registration import load_extension

VARIABLE = "NEURON_LAUNCH_BLOCKING"


def set_launch_blocking(blocking: bool) -> None:
    """From now on, in all threads, launch so. Going back to blocking waits for what is queued."""
    load_extension().launch_asynchronously(not blocking)


def is_launch_blocking() -> bool:
    """Whether an operator has run when its call returns."""
    return not load_extension().launches_asynchronously()


def launched() -> int:
    """How many pieces of work (operators, copies) have been queued in this process, not waited for."""
    return int(load_extension().launched_work())


def set_from_environment() -> None:
    """Follow NEURON_LAUNCH_BLOCKING, if it is set. Raises ValueError when it is neither 0 nor 1."""
    value = os.environ.get(VARIABLE)
    if value:
        if value not in ("0", "1"):
            raise ValueError(
                f"{VARIABLE} is {value!r}: use 1 for blocking launch or 0 for asynchronous launch."
            )
        set_launch_blocking(value == "1")
    # While Python still works: queued kernels may be written in it.
    atexit.register(load_extension().shut_down_queues)
