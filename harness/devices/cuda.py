"""NVIDIA and AMD devices under PyTorch's ``cuda`` type."""

from __future__ import annotations

from collections.abc import Mapping

from harness.devices.base import TorchDevice


class CudaDevice(TorchDevice):
    """The ``cuda`` device; it has no CPU fallback, so a missing operator raises."""

    name = "cuda"
    cluster_resource = "GPU"
    visible_variable = "CUDA_VISIBLE_DEVICES"

    def versions(self) -> Mapping[str, str]:
        """Adds the CUDA or ROCm version torch was built for and the first device's name."""
        import torch

        versions = dict(super().versions())
        versions["cuda"] = str(torch.version.cuda or torch.version.hip or "")
        if torch.cuda.is_available():
            versions["device"] = torch.cuda.get_device_name(0)
        return versions
