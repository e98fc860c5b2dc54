"""Views and copies."""

from __future__ import annotations

import torch

from .registry import aten, rewrites


@rewrites(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def _view(tensor: torch.Tensor, size: list[int]) -> torch.Tensor:
    # Strides of what is computed on the way may differ from those the graph was traced with.
    return tensor.reshape(size)
