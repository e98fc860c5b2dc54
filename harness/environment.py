"""The snapshot of what a run ran on, kept with its results."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from harness import __version__
from harness.devices.base import Description
from results.events import SCHEMA_VERSION

_PACKAGES = ("torch", "transformers", "huggingface-hub", "safetensors", "numpy", "duckdb", "pytest")


def snapshot(device: Description) -> dict[str, str]:
    """Names and versions, all text: interpreter, machine, packages, and the device's own."""
    facts = {
        "harness": __version__,
        "schema": str(SCHEMA_VERSION),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "device": device.name,
        "device_count": str(device.count),
        "compile_backend": device.compile_backend,
    }
    facts |= {f"package.{name}": _version(name) for name in _PACKAGES}
    facts |= {f"device.{name}": text for name, text in device.versions.items()}
    return facts


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
