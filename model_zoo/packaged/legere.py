"""Legere's reader of printed lines of Portuguese. MIT licence."""

from __future__ import annotations

import torch
from torch import nn

from model_zoo.package_code import module_of, package_folder

MODALITIES = ("image",)


def make_model() -> nn.Module:
    """The package's network and weights."""
    model: nn.Module = module_of("legere", "legere.model").CompactCRNN()
    saved = torch.load(package_folder("legere", "legere") / "data" / "model.pt", weights_only=True)
    model.load_state_dict(saved["model"])
    return model.eval()


def make_inputs(model: nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Two lines of grey pixels between -1 and 1: (2, 1, 32, 160)."""
    generator = torch.Generator().manual_seed(seed)
    return {"images": torch.rand(2, 1, 32, 160, generator=generator) * 2 - 1}
