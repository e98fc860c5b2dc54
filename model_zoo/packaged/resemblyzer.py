"""Resemblyzer's speaker encoder: an embedding of 256 numbers of who speaks. Apache-2.0 licence."""

from __future__ import annotations

import torch
from torch import nn

from model_zoo.package_code import module_of, package_folder

MODALITIES = ("audio",)
MELS, FRAMES = 40, 160  # 1.6 seconds, what it was trained with


def make_model() -> nn.Module:
    """The package's network and weights; what it needs to read audio files is left out."""
    encoder = module_of(
        "Resemblyzer", "resemblyzer.voice_encoder", without=("resemblyzer.audio",)
    ).VoiceEncoder
    weights = package_folder("Resemblyzer", "resemblyzer") / "pretrained.pt"
    model: nn.Module = encoder(device="cpu", verbose=False, weights_fpath=weights)
    return model.eval()


def make_inputs(model: nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Mel spectrograms (2, 160, 40) of non-negative numbers."""
    generator = torch.Generator().manual_seed(seed)
    return {"mels": torch.randn(2, FRAMES, MELS, generator=generator).abs()}
