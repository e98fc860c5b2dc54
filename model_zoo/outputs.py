"""What a model gave: tensors to compare, and a scalar to call ``backward`` on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch


class NoLossError(ValueError):
    """An output without any differentiable float tensor."""


def named_tensors(output: Any) -> list[tuple[str, torch.Tensor]]:
    """Every tensor in an output with its path, e.g. ``("hidden_states.0", ...)``.

    The order is that of the output's own fields, so two runs of one model give equal names. A
    value that is neither tensor, mapping, sequence nor dataclass (a cache, a flag) is left out.
    """
    return list(_walk(output, ""))


def loss_of(output: Any) -> torch.Tensor:
    """The scalar to differentiate.

    The model's own ``loss`` if it gave one. Else each differentiable float tensor is weighed with a
    fixed pattern, averaged, and the averages are averaged: every output has a share, whatever its
    size. The weights are there because a plain mean says nothing where a model ends in a layer
    norm: that mean is constant, so every gradient but the last bias's would be rounding noise.

    Raises:
        NoLossError: nothing in the output depends on a parameter.
    """
    loss = getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return loss if loss.ndim == 0 else loss.mean()
    means = [
        _weighed_mean(tensor)
        for _, tensor in named_tensors(output)
        if tensor.requires_grad and tensor.is_floating_point() and tensor.numel()
    ]
    if not means:
        raise NoLossError(f"{type(output).__name__} holds no differentiable float tensor")
    return torch.stack(means).mean()


def _weighed_mean(tensor: torch.Tensor) -> torch.Tensor:
    """Mean of the elements times -3, -2, ..., 3 over and over; 7 divides no usual width.

    The pattern is made by NumPy, so that no operator runs, and is counted, only to make it.
    """
    pattern = (np.arange(tensor.numel(), dtype=np.float32) % 7 - 3).reshape(tensor.shape)
    return (tensor.float() * torch.from_numpy(pattern).to(tensor.device)).mean()


def _walk(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path or "output", value
    elif isinstance(value, Mapping):  # ModelOutput is one.
        for key, item in value.items():
            yield from _walk(item, _join(path, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, _join(path, str(index)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _walk(getattr(value, field.name), _join(path, field.name))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
