"""Fracast's forecast of a time series: quantiles of the next 48 values. Apache-2.0 licence."""

from __future__ import annotations

import json

import torch
from torch import nn

from model_zoo.package_code import module_of, package_folder

MODALITIES = ("time_series",)


class Forecast(nn.Module):
    """The package's encoder and head in one call, as its own ``FracastModel`` calls them."""

    def __init__(self, core: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.core, self.head = core, head

    def forward(self, values: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
        """Quantiles (batch, horizon, quantile) after ``values`` (batch, 1, context), scaled to [0, 1]."""
        hidden = self.core(values, observed, observed.to(torch.float32))
        found: torch.Tensor = self.head.forward_horizon(  # type: ignore[operator]
            hidden, last_obs=values[:, 0, -1:], ctx=values[:, 0], ctx_mask=observed[:, 0]
        )
        return found


def make_model() -> nn.Module:
    """The package's networks with its weights in float32."""
    folder = package_folder("fracast", "fracast") / "weights"
    core, head = module_of("fracast", "fracast.inference").load_fracast(folder, weights="fp32")
    return Forecast(core, head).eval()


def make_inputs(model: nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """A daily wave with noise, of a day of 24 values, over the whole context; some values are missing."""
    folder = package_folder("fracast", "fracast") / "weights"
    context = int(json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]["W"])
    generator = torch.Generator().manual_seed(seed)
    wave = torch.sin(torch.arange(context) * (2 * torch.pi / 24)) / 2 + 0.5
    values = (wave + torch.rand(2, 1, context, generator=generator) / 10) / 1.1
    observed = torch.rand(2, 1, context, generator=generator) > 0.1
    return {"values": values * observed, "observed": observed}
