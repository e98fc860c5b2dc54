"""Looks at everything a run needs and says, line by line, what is well and what to do about the rest."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness import devices, hub, processes
from harness.errors import HarnessError
from harness.profiles import EMBEDDED_HUB

_NEEDED_PACKAGES = ("torch", "transformers", "huggingface-hub", "duckdb", "streamlit")
_LOW_DISK_BYTES = 2 * 2**30


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's report; ``advice`` says what to do where it is not ``ok``."""

    name: str
    ok: bool
    found: str
    advice: str = ""


def examine(device: str, hub_name: str, store: Path) -> list[Check]:
    """Run every check; none of them raises."""
    return [
        Check("python", True, sys.version.split()[0]),
        *(_package(name) for name in _NEEDED_PACKAGES),
        _device(device),
        _guarded("eager", "an operator on the device", _run_eager, device),
        _guarded("compile", "torch.compile on the device", _run_compiled, device),
        _hub(hub_name, store),
        _store(store),
        _disk(store),
    ]


def _package(name: str) -> Check:
    try:
        return Check(name, True, version(name))
    except PackageNotFoundError:
        return Check(name, False, "not installed", "install this package again with `pip install .`")


def _device(name: str) -> Check:
    try:
        found = processes.call(devices.describe, name)
    except HarnessError as error:
        return Check("device", False, str(error), "run `python -c 'import torch'` and read what it says")
    if not found.available:
        return Check("device", False, found.reason, f"install a torch or a package that brings {name!r}")
    built = ", ".join(f"{key} {value}" for key, value in found.versions.items())
    return Check("device", True, f"{found.count} × {name} ({built})")


def _guarded(name: str, what: str, function: Callable[[str], str], device: str) -> Check:
    try:
        return Check(name, True, processes.call(function, device))
    except HarnessError as error:
        last = str(error).strip().splitlines()[-1]
        return Check(
            name, False, f"{what} failed: {last}", "see the error; nothing else will work before this"
        )


def _run_eager(name: str) -> str:
    """Runs in a child: one operator against the CPU, with its calls recorded."""
    import torch

    device = devices.get(name)
    left, right = torch.randn(4, 4), torch.randn(4, 4)
    with device.record() as recorder:
        result = left.to(name) @ right.to(name)
        device.synchronize()
    torch.testing.assert_close(result.cpu(), left @ right)
    where = "on the device" if any(call.device_calls for call in recorder.calls()) else "on the CPU"
    return f"a matrix product agrees with the CPU and ran {where}"


def _run_compiled(name: str) -> str:
    """Runs in a child: one compiled function against the CPU."""
    import torch

    device = devices.get(name)
    if not device.compile_backend:
        return "the device has no backend for torch.compile"
    function = torch.compile(
        lambda x: torch.relu(x) * 2, backend=device.compile_backend, **device.compile_options
    )
    argument = torch.randn(8)
    torch.testing.assert_close(function(argument.to(name)).cpu(), torch.relu(argument) * 2)
    return f"backend {device.compile_backend!r} compiled {device.compile_facts().graphs} graph"


def _hub(name: str, store: Path) -> Check:
    if name == EMBEDDED_HUB:
        built = (hub.mirror_folder(store)).is_dir()
        return Check("hub", True, f"embedded mirror {'built' if built else 'to be built at the first run'}")
    from huggingface_hub import HfApi

    try:
        next(iter(HfApi(endpoint=name).list_models(limit=1)), None)
    except Exception as error:  # noqa: BLE001 - any failure of the client means the same here
        return Check("hub", False, f"{name}: {error}", "check the URL and the network, or use --hub embedded")
    return Check("hub", True, name)


def _store(store: Path) -> Check:
    from results.layout import StoreError, database_path
    from results.store import open_store

    if not database_path(store).exists():
        return Check("store", True, f"{store} has no results yet; `harness nightly` makes them")
    try:
        with open_store(store) as reader:
            return Check("store", True, f"{reader.database}, latest run {reader.latest_run()}")
    except StoreError as error:
        return Check("store", False, str(error), "rebuild it with `harness ingest --rebuild`")


def _disk(store: Path) -> Check:
    folder = store
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:.1f} GiB free at {folder}"
    return Check("disk", free > _LOW_DISK_BYTES, found, "free some space, or use --store elsewhere")
