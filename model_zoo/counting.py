"""Stops the building of a model that has more parameters than it may, while they are still only counted.

transformers builds a model without memory first (on the ``meta`` device) and gives it memory when its
weights are read. So whatever a configuration asks for can be counted before it costs anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch.nn.modules import module

from model_zoo.safety import RefusedError

MAX_TENSORS = 1_000_000
"""Parameters and buffers of one model, whatever their sizes; the largest models known have under 200,000."""


@contextlib.contextmanager
def at_most(elements: int) -> Iterator[None]:
    """Refuse every module of this process whose parameters and buffers together pass a number of elements.

    Raises:
        RefusedError: from the constructor that passes it.
    """
    counted = tensors = 0

    def count(_: torch.nn.Module, __: str, tensor: torch.Tensor | None) -> None:
        nonlocal counted, tensors
        if tensor is None:
            return
        counted += tensor.numel()
        tensors += 1
        if counted > elements or tensors > MAX_TENSORS:
            raise RefusedError(
                f"The configuration asks for more than {counted:,} parameters in {tensors:,} tensors; "
                f"the weights it comes with allow for {elements:,}."
            )

    handles = (
        module.register_module_parameter_registration_hook(count),
        module.register_module_buffer_registration_hook(count),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
