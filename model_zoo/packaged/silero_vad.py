"""Silero's voice activity detection at 16 kHz, from the safetensors file in its package.

The package offers PyTorch a scripted model, which cannot be compiled, and describes the layers for another
library; this is the same network as a module. MIT licence.
"""

from __future__ import annotations

import torch
from safetensors.torch import load_file
from torch import nn

from model_zoo.package_code import package_folder

MODALITIES = ("audio",)
FRAME, CONTEXT = 512, 64
"""Samples of a frame, and of the frame before it that it is read with."""


class SileroVad(nn.Module):
    """Whether frames of speech at 16 kHz hold a voice.

    A short-time Fourier transform as a convolution, four convolutions, an LSTM cell and a last convolution.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Probabilities (batch, time) of voice in ``frames`` (batch, time, CONTEXT + FRAME)."""
        state = None
        found = []
        for frame in frames.unbind(1):
            state = self.lstm_cell(self._features(frame), state)
            found.append(self.final_conv(state[0].unsqueeze(-1).relu()).sigmoid().squeeze(1).mean(1))
        return torch.stack(found, 1)

    def _features(self, frame: torch.Tensor) -> torch.Tensor:
        spectrum = self.stft_conv(nn.functional.pad(frame, (0, 64), "reflect").unsqueeze(1))
        real, imaginary = spectrum.chunk(2, 1)
        x = (real**2 + imaginary**2).sqrt()
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = layer(x).relu()
        return x.squeeze(-1)


def make_model() -> nn.Module:
    """The network with the package's weights, every one of them used."""
    model = SileroVad()
    folder = package_folder("silero-vad", "silero_vad")
    model.load_state_dict(load_file(folder / "data" / "silero_vad_16k.safetensors"))
    return model.eval()


def make_inputs(model: nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Two recordings of four frames each, of noise about as loud as speech."""
    generator = torch.Generator().manual_seed(seed)
    return {"frames": torch.randn(2, 4, CONTEXT + FRAME, generator=generator) / 10}
