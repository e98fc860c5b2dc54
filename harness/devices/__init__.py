"""Device adapters, found by the entry-point group ``harness.devices``."""

from __future__ import annotations

import contextlib
from importlib.metadata import entry_points

from harness.devices.base import Description, Device
from harness.errors import DeviceError, UsageError

GROUP = "harness.devices"


def names() -> list[str]:
    """Names of the adapters that installed packages offer."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def get(name: str) -> Device:
    """Make the adapter for a torch device type.

    A device without an adapter of its own is driven through ``torch.accelerator``.

    Raises:
        UsageError: the name is not a device type.
    """
    for point in entry_points(group=GROUP):
        if point.name == name:
            adapter: Device = point.load()()
            return adapter
    if not name.isidentifier():
        raise UsageError(f"{name!r} is not a device type; known ones are {', '.join(names())}")
    from harness.devices.generic import GenericDevice

    return GenericDevice(name)


def preload() -> None:
    """Import what the installed adapters' devices need; an adapter whose device is absent is left out."""
    for point in entry_points(group=GROUP):
        with contextlib.suppress(ImportError):
            point.load().preload()


def describe(name: str) -> Description:
    """Describe a device; imports torch, so the supervisor calls it in a child."""
    return get(name).describe()


def require(description: Description) -> None:
    """Raise :class:`DeviceError` for a device that cannot be used."""
    if not description.available:
        raise DeviceError(
            f"device {description.name!r} is not available: {description.reason}; run `harness doctor`"
        )
