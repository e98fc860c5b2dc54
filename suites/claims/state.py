"""What a claim changes in its process, put back afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

_SET_BY_BACKENDS = ("assume_static_by_default", "automatic_dynamic_shapes", "recompile_limit")


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put back determinism, default dtype, the CPU's generator, and what Dynamo was told and has compiled."""
    from torch._dynamo import config

    mode, dtype = torch.get_deterministic_debug_mode(), torch.get_default_dtype()
    drawn, backend = torch.get_rng_state(), torch.compiler.get_default_backend()
    torch._dynamo.reset()
    try:
        # A backend that refuses dynamic shapes sets these for the process.
        with config.patch({name: getattr(config, name) for name in _SET_BY_BACKENDS}):
            yield
    finally:
        torch._dynamo.reset()
        torch.compiler.set_default_backend(backend)
        torch.set_rng_state(drawn)
        torch.set_default_dtype(dtype)
        torch.set_deterministic_debug_mode(mode)
