"""MTCNN's three networks of face detection, by facenet-pytorch. MIT licence."""

from __future__ import annotations

import torch
from torch import nn

from model_zoo.package_code import module_of

MODALITIES = ("image",)


class Networks(nn.Module):
    """The networks that propose, refine and decide, each on images of the size it is fed in a detection."""

    def __init__(self, proposes: nn.Module, refines: nn.Module, decides: nn.Module) -> None:
        super().__init__()
        self.proposes, self.refines, self.decides = proposes, refines, decides

    def forward(self, whole: torch.Tensor, middle: torch.Tensor, large: torch.Tensor) -> dict[str, object]:
        """Boxes and probabilities of each network, and the landmarks of the last."""
        return {
            "proposed": self.proposes(whole),
            "refined": self.refines(middle),
            "decided": self.decides(large),
        }


def make_model() -> nn.Module:
    """The package's networks and weights."""
    networks = module_of(
        "facenet-pytorch",
        "facenet_pytorch.models.mtcnn",
        without=("facenet_pytorch.models.utils.detect_face",),
    )
    return Networks(networks.PNet(), networks.RNet(), networks.ONet()).eval()


def make_inputs(model: nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Images between -1 and 1: of any size for the first, of 24 and 48 pixels for the others."""
    generator = torch.Generator().manual_seed(seed)
    sizes = {"whole": 60, "middle": 24, "large": 48}
    return {name: torch.rand(2, 3, size, size, generator=generator) * 2 - 1 for name, size in sizes.items()}
