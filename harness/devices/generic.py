"""Any device that ``torch.accelerator`` drives and nobody wrote an adapter for."""

from __future__ import annotations

from harness.devices.base import TorchDevice


class GenericDevice(TorchDevice):
    """A device known by its torch type alone, e.g. ``xpu``, ``mps`` or a renamed PrivateUse1."""

    def __init__(self, name: str) -> None:
        self.name = name
