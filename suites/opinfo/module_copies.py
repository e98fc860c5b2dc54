"""Modules among the arguments of a call: their tensors, and copies of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn


def tensors_of(module: nn.Module) -> Iterator[Tensor]:
    """Parameters, then buffers, each once, in the order of their registration."""
    yield from module.parameters()
    yield from module.buffers()


def moved(
    module: nn.Module, device: str, dtypes: Mapping[torch.dtype, torch.dtype] | None = None
) -> nn.Module:
    """A copy on a device, by ``Module.to`` as in programs.

    Args:
        dtypes: another dtype for tensors of some; then not by ``Module.to``, which takes one for all.
    """
    copied = copy.deepcopy(module)
    if dtypes is None:
        return copied.to(device)
    return copied._apply(lambda tensor: tensor.to(device, dtypes.get(tensor.dtype, tensor.dtype)))


def mapped(function: Callable[[Tensor], Tensor], module: nn.Module) -> nn.Module:
    """A copy with every parameter and buffer replaced by what a function makes of it; shared ones stay so."""
    copied = copy.deepcopy(module)
    made: dict[int, Tensor] = {}
    for owner in copied.modules():
        for name, parameter in [*owner._parameters.items()]:
            if parameter is not None:
                if id(parameter) not in made:
                    new = function(parameter.detach())
                    made[id(parameter)] = nn.Parameter(new, parameter.requires_grad)
                setattr(owner, name, made[id(parameter)])
        for name, buffer in [*owner._buffers.items()]:
            if buffer is not None:
                setattr(owner, name, made.setdefault(id(buffer), function(buffer)))
    return copied
