"""The CPU as a device under test: the harness checked against itself."""

from __future__ import annotations

from contextlib import AbstractContextManager

from harness.devices.base import Description, TorchDevice
from harness.devices.shadow import ShadowRecorder
from suites.device import Recorder


class CpuDevice(TorchDevice):
    """The reference run as a device; every op call is a device call."""

    name = "cpu"

    def describe(self) -> Description:
        """Always there."""
        return Description("cpu", True, "", 1, self.versions(), self.compile_backend)

    def record(self, *, pair: bool = False) -> AbstractContextManager[Recorder]:
        """Count every operator the profiler saw."""
        return ShadowRecorder()

    def synchronize(self) -> None:
        """Nothing is queued."""

    def reset(self) -> None:
        """Nothing is kept."""
