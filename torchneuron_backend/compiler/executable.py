"""StableHLO text -> a program that runs on host memory, through XLA's CPU compiler behind PJRT.

The PJRT client owns threads, which do not survive a fork. There is therefore one client per process, made when a
program is first needed, and a program keeps its text so that a forked child can load it again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import dlpack

from .errors import ExecutableError

# XLA announces its devices on stderr unless told before it is loaded.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# By process id, and never removed: to destroy a parent's client in its child would wait for threads that are not there.
_clients: dict[int, Any] = {}
_lock = threading.Lock()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()


# Another thread may hold the lock at the moment of the fork.
os.register_at_fork(after_in_child=_new_lock)


def _client() -> Any:
    with _lock:
        if os.getpid() not in _clients:
            from jaxlib import xla_client

            _clients[os.getpid()] = xla_client.make_cpu_client(asynchronous=False)
        return _clients[os.getpid()]


def has_client() -> bool:
    """Whether this very process has started PJRT."""
    return os.getpid() in _clients


class Executable:
    """A compiled program. Compiles at once; raises ExecutableError where XLA refuses the text."""

    def __init__(self, stablehlo: str) -> None:
        self.stablehlo = stablehlo
        self._loaded: dict[int, Any] = {}
        self._load()

    def _load(self) -> Any:
        program = self._loaded.get(os.getpid())
        if program is None:
            from jaxlib import xla_client

            client = _client()
            try:
                options = xla_client.CompileOptions()
                program = client.compile_and_load(self.stablehlo, client.local_devices(), options)
            except Exception as error:
                raise ExecutableError(f"XLA refuses the program: {error}") from error
            self._loaded[os.getpid()] = program
        return program

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Results for host tensors ``inputs``, contiguous and in memory that belongs to the results alone.

        Inputs are read where they lie if their address is a multiple of 64 bytes, and copied otherwise.
        Raises ExecutableError.
        """
        program = self._load()
        from jaxlib import _jax

        device = _client().local_devices()[0]
        try:
            arguments = [
                _jax.dlpack_managed_tensor_to_buffer(dlpack.to_dlpack(_plain(tensor)), device, None)
                for tensor in inputs
            ]
            results = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
            return [
                dlpack.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(shards[0], None)) for shards in results
            ]
        except Exception as error:
            raise ExecutableError(f"the executable failed: {error}") from error


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as XLA expects them: no gradient, no lazy bits, rows one after another."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()
