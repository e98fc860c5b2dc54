"""The pronunciation of Persian words: an encoder and a decoder that feeds on its own tokens. MIT licence."""

from __future__ import annotations

import torch
from torch import nn

from model_zoo.package_code import module_of, package_folder

MODALITIES = ("text",)
LENGTH = 10
"""Tokens of a word and of its pronunciation, start and end among them."""


class Pronunciation(nn.Module):
    """The package's network, which keeps the device of its results in an attribute."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, letters: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Scores (time, batch, sound) of the sounds of ``letters`` (time, batch), greedily decoded."""
        self.network.device = letters.device  # type: ignore[assignment]
        found: torch.Tensor = self.network(letters, start, 0.0)
        return found


def make_model() -> nn.Module:
    """The package's network and weights."""
    networks = module_of("g2p-fa", "g2p_fa.model")
    sizes = module_of("g2p-fa", "g2p_fa.hparams").hparams
    hidden, layers = sizes["HID_DIM"], sizes["N_LAYERS"]
    encoder = networks.Encoder(sizes["INPUT_DIM"], sizes["ENC_EMB_DIM"], hidden, layers, sizes["ENC_DROPOUT"])
    decoder = networks.Decoder(
        sizes["OUTPUT_DIM"], sizes["DEC_EMB_DIM"], hidden, layers, sizes["DEC_DROPOUT"]
    )
    model = networks.Seq2Seq(encoder, decoder, torch.device("cpu"))
    weights = package_folder("g2p-fa", "g2p_fa") / "data" / "weights"
    model.load_state_dict(torch.load(weights, weights_only=True, map_location="cpu"))
    return Pronunciation(model).eval()


def make_inputs(model: nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Two words of random letters, and the sign that starts a pronunciation (1, as the package has it)."""
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(3, 41, (LENGTH, 2), generator=generator)
    letters[0], letters[-1] = 1, 2
    start = torch.zeros(LENGTH, 2, dtype=torch.long)
    start[0] = 1
    return {"letters": letters, "start": start}
