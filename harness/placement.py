"""Checking that a model that was moved is where it should be, and still itself."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor, nn


def check_placement(model: nn.Module, reference: nn.Module, device: str) -> str:
    """Say what is wrong with a model that was copied to a device; ``""`` if nothing is.

    Looks for tensors left elsewhere (``device_map="auto"`` does that in silence), values that
    changed on the way, and weights that were tied before and are not any more.
    """
    moved = dict(_tensors(model))
    for name, tensor in _tensors(reference):
        twin = moved.get(name)
        if twin is None:
            return f"{name} is missing on {device}"
        if twin.device.type != device:
            return f"{name} stayed on {twin.device.type}"
        if twin.dtype != tensor.dtype or not torch.equal(_bits(twin.cpu()), _bits(tensor)):
            return f"{name} changed on its way to {device}"
    lost = _tied(reference) - _tied(model)
    if lost:
        return f"{' and '.join(sorted(next(iter(lost))))} are tied on the CPU and not on {device}"
    return ""


def _tensors(model: nn.Module) -> chain[tuple[str, Tensor]]:
    return chain(model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False))


def _bits(tensor: Tensor) -> Tensor:
    """The tensor's bytes, so that NaN compares equal to itself."""
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def _tied(model: nn.Module) -> set[frozenset[str]]:
    """Groups of names under which one and the same parameter is found."""
    groups: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(id(parameter), set()).add(name)
    return {frozenset(names) for names in groups.values() if len(names) > 1}
