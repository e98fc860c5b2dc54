"""The border between host and device memory, for code that runs kernels on device memory itself.

A compiled graph, for example, takes host aliases of its inputs, computes, and hands its results back
by `adopt`; no byte is copied either way.

In protect mode (``TORCHNEURON_PROTECT=1``) the host may not touch device memory but through an alias, as long
as that lives, and `adopt` copies, because memory of the host's cannot be closed.
"""

import torch

from torchneuron_backend._registration import load_extension


def host_alias(tensor: torch.Tensor, *, writable: bool = True) -> torch.Tensor:
    """A CPU tensor over the memory of ``tensor``: same shape, strides, offset, dtype, bytes.

    Writes through either are seen through the other. The alias keeps the device memory alive. Neither
    autograd nor the op counters know of it. With ``writable=False`` the caller only reads, and memory that
    ``tensor`` shares with a lazy clone stays shared. Raises TypeError when ``tensor`` is not a dense neuron
    tensor.
    """
    return load_extension().host_alias(tensor, writable)


def adopt(tensor: torch.Tensor, device_index: int = -1) -> torch.Tensor:
    """A neuron tensor over the memory of the CPU tensor ``tensor``, on ``device_index`` (-1: the current).

    The memory is entered in the device's books (``memory_allocated`` grows by the size of its storage) and
    stays alive as long as the result does. Raises torch.OutOfMemoryError when the device has no room for
    it, RuntimeError for a tensor that is not dense and on the CPU, or an index out of range.
    """
    return load_extension().adopt(tensor, device_index)


def set_limit(limit_bytes: int, device_index: int = -1) -> None:
    """How many bytes a device may hold; 0 restores the default (``NEURON_SIM_MEMORY_LIMIT``, else 24 GiB)."""
    load_extension().set_memory_limit(device_index, limit_bytes)


def limit(device_index: int = -1) -> int:
    """How many bytes a device may hold."""
    return int(load_extension().memory_limit(device_index))
