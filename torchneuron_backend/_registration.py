"""Makes ``neuron`` a device of the installed torch, once per process."""

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch

NAME = "neuron"
PACKAGE = Path(__file__).parent
REBUILD = "reinstall torchneuron-harness to rebuild it (pip install --no-build-isolation .)"


def real_backend_installed() -> bool:
    """Whether the real backend, ``torch_neuronx``, is there to provide the device."""
    return importlib.util.find_spec("torch_neuronx") is not None


def check_build() -> None:
    """Raise ImportError, in one sentence, when the C++ part is missing or made for another torch."""
    note = PACKAGE / "built_for_torch.txt"
    if not note.is_file():
        raise ImportError(f"the C++ part of the neuron device has not been built: {REBUILD}.")
    built_for = note.read_text(encoding="utf-8").strip()
    if built_for != str(torch.__version__):
        raise ImportError(
            f"the neuron device was built for torch {built_for}, and the installed torch is "
            f"{torch.__version__}: {REBUILD}."
        )


@functools.cache  # asked for by every reading of the counters
def load_extension() -> ModuleType:
    """The compiled part, which registers allocator, guard, hooks and kernels as it loads."""
    check_build()
    try:
        from torchneuron_backend import _C
    except ImportError as error:
        raise ImportError(f"the C++ part of the neuron device does not load ({error}): {REBUILD}.") from None
    return _C


def register() -> None:
    """Register device, device module, methods and kernels; nothing where ``torch_neuronx`` is installed."""
    if hasattr(torch, NAME) or real_backend_installed():
        return
    extension = load_extension()
    torch.utils.rename_privateuse1_backend(NAME)

    from torchneuron_backend import (
        _teardown,
        _torch_patches,
        _torch_tracing,
        device_module,
        eager,
        faults,
        launch,
        numerics,
        tables,
    )

    torch._register_device_module(NAME, device_module)
    sys.modules.setdefault(f"torch.{NAME}", device_module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _torch_patches.install()
    _torch_tracing.install()
    _teardown.install(extension)
    extension.register_lowerings(*tables.table_from_environment())
    faults.arm_from_environment()
    numerics.set_from_environment()
    eager.set_from_environment()
    launch.set_from_environment()
