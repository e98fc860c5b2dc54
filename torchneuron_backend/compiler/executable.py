"""StableHLO text -> a program that runs on host memory, through XLA's CPU compiler behind PJRT.

The PJRT client owns threads and locks, which do not survive a fork: a client of the parent's is useless in a
child, and a second one beside it aborts the process (seen, in abseil's mutex). So the client is made when a
program is first needed, never on import, and a child whose parent had already made one is told so.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Self

import torch
from torch.utils import dlpack

from .errors import ExecutableError

# XLA announces its devices on stderr unless told before it is loaded.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

log = logging.getLogger(__name__)

_client: Any = None
_owner: int | None = None
_lock = threading.Lock()


def _start() -> Any:
    """This process's client. Raises ExecutableError in a child of a process that has one."""
    global _client, _owner
    with _lock:
        if _client is None:
            from jaxlib import xla_client

            _client, _owner = xla_client.make_cpu_client(asynchronous=False), os.getpid()
            if find_spec("jax") is None:
                sys.meta_path.insert(0, _no_jax)
    if os.getpid() != _owner:
        raise ExecutableError(
            "this process was forked from one that had already run compiled graphs, and XLA does not survive "
            "a fork. Fork before the first compiled graph, or spawn"
        )
    return _client


class _NoJax(threading.local):
    """XLA's bindings import jax for each array that they make, and do without where it is not installed.

    Looking for it then costs many times what a small program does, so inside, the answer is given at once.
    """

    inside = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if self.inside and name == "jax":
            raise ModuleNotFoundError("No module named 'jax'", name="jax")

    def __enter__(self) -> None:
        self.inside = True

    def __exit__(self, *_: object) -> None:
        self.inside = False


_no_jax = _NoJax()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()


# Another thread may hold the lock at the moment of the fork.
os.register_at_fork(after_in_child=_new_lock)


def has_client() -> bool:
    """Whether this very process has started PJRT."""
    return _owner == os.getpid()


# Programs here are small and compiling costs more than running; level 3 takes 1.3 times as long.
_OPTIMIZATION_LEVEL = 1

# All that decides, besides its text, what a program is compiled to.
FLAGS = f"xla_backend_optimization_level={_OPTIMIZATION_LEVEL} xla_cpu_enable_fast_math=false"


def _compile_options() -> Any:
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    flags = options.executable_build_options.debug_options
    flags.xla_backend_optimization_level = _OPTIMIZATION_LEVEL
    # A quotient by its reciprocal is not a quotient: fmod(5.125, 5.125) was 5.125.
    flags.xla_cpu_enable_fast_math = False
    return options


class Executable:
    """A compiled program. Compiles at once; raises ExecutableError where XLA refuses the text."""

    def __init__(self, stablehlo: str) -> None:
        client = _start()
        try:
            self._program = client.compile_and_load(stablehlo, client.local_devices(), _compile_options())
        except Exception as error:
            raise ExecutableError(f"XLA refuses the program: {error}") from error

    @classmethod
    def load(cls, serialised: bytes) -> Self | None:
        """The program that :meth:`serialise` gave, on a machine of the same kind with the same jaxlib.

        None where XLA does not take it. It is machine code: trust its source.
        """
        from jaxlib import xla_client

        client = _start()
        devices = xla_client.DeviceList(tuple(client.local_devices()))
        executable = cls.__new__(cls)
        try:
            executable._program = client.deserialize_executable(serialised, devices, _compile_options())
        except Exception as error:  # noqa: BLE001 - whatever the reason, it can be compiled again
            log.warning("XLA does not load a compiled program: %s", error)
            return None
        return executable

    def serialise(self) -> bytes | None:
        """The program as bytes; None where XLA has no such form of it."""
        try:
            return bytes(self._program.serialize())
        except Exception as error:  # noqa: BLE001 - the program runs all the same
            log.warning("XLA does not serialise a compiled program: %s", error)
            return None

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Results for host tensors ``inputs``, contiguous and in memory that belongs to the results alone.

        Inputs are read where they lie if their address is a multiple of 64 bytes, and copied otherwise.
        Raises ExecutableError.
        """
        from jaxlib import _jax  # type: ignore[attr-defined]

        device = _start().local_devices()[0]
        try:
            with _no_jax:
                arguments = [
                    _jax.dlpack_managed_tensor_to_buffer(dlpack.to_dlpack(_plain(tensor)), device, None)
                    for tensor in inputs
                ]
                results = self._program.execute_sharded(arguments).disassemble_into_single_device_arrays()
                return [
                    dlpack.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(shards[0], None))
                    for shards in results
                ]
        except Exception as error:
            raise ExecutableError(f"the executable failed: {error}") from error


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as XLA expects them: no gradient, no lazy bits, rows one after another."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()
