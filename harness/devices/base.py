"""What the harness knows of a device, and the parts that most devices share.

Importing this module imports no torch: the supervising process lists devices too.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from results.vocabulary import Outcome
from suites.device import CompileFacts, Recorder, Tolerance


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """A device as a run's environment snapshot keeps it.

    Attributes:
        name: torch device type.
        available: whether tensors can be put there now.
        reason: why not, or ``""``.
        count: number of devices.
        versions: package or part → version, the device's own build identity among them.
        compile_backend: name for ``torch.compile``, ``""`` if the device has none.
    """

    name: str
    available: bool
    reason: str
    count: int
    versions: Mapping[str, str]
    compile_backend: str


class Device(Protocol):
    """A device adapter. It extends what suites see (:class:`suites.device.TestedDevice`).

    Attributes:
        cluster_resource: what Ray calls the device; a batch asks for one.
        visible_variable: environment variable in which Ray says which of a node's devices a batch was
            given, ``""`` if there is none.
    """

    __test__: ClassVar[bool] = False

    name: str
    compile_backend: str
    cluster_resource: str
    visible_variable: str

    @property
    def compile_options(self) -> Mapping[str, Any]:
        """Keyword arguments for ``torch.compile`` beside the backend."""

    @classmethod
    def preload(cls) -> None:
        """Import what using the device will import; starts nothing, since forks follow."""

    def describe(self) -> Description:
        """Look at the device; never raises for one that is merely absent."""

    def tolerance(self, dtype: str) -> Tolerance:
        """Bounds for one operator's result against the CPU's."""

    def compiled_tolerance(self, dtype: str) -> Tolerance:
        """Bounds for one operator's result where it was compiled."""

    def model_tolerance(self, dtype: str) -> Tolerance:
        """Bounds for a whole model's outputs and gradients, where errors add up over layers."""

    def record(self, *, pair: bool = False) -> AbstractContextManager[Recorder]:
        """Record op calls; see :meth:`suites.device.TestedDevice.record`."""

    def synchronize(self) -> None:
        """Wait for everything queued."""

    def classify(self, error: BaseException) -> Outcome:
        """Say what an exception raised by the device means."""

    def compile_facts(self, *, reset: bool = False) -> CompileFacts:
        """What the compile backend did in this process."""

    def keep_artefacts(self, folder: Path) -> None:
        """Let compilers keep what they make in a folder, and nowhere else; called before they are used."""

    def reset(self) -> None:
        """Bring the device to a known state before a case."""

    def environment(self) -> Mapping[str, str]:
        """Environment variables that PyTorch's own suites need to see this device."""


# torch.testing.assert_close's own defaults for one operator
# (https://docs.pytorch.org/docs/stable/testing.html).
OPERATOR_TOLERANCES: Mapping[str, Tolerance] = {
    "float16": Tolerance(1e-3, 1e-5),
    "bfloat16": Tolerance(1.6e-2, 1e-5),
    "float32": Tolerance(1.3e-6, 1e-5),
    "float64": Tolerance(1e-7, 1e-7),
    "complex64": Tolerance(1.3e-6, 1e-5),
    "complex128": Tolerance(1e-7, 1e-7),
}

# A model sums thousands of products in another order than the reference, so its bounds are
# those above with the rounding error of some thousand additions: eps * 2**10 relative.
MODEL_TOLERANCES: Mapping[str, Tolerance] = {
    "float16": Tolerance(1e-2, 1e-2),
    "bfloat16": Tolerance(5e-2, 5e-2),
    "float32": Tolerance(1e-4, 1e-5),
    "float64": Tolerance(1e-7, 1e-8),
}

EXACT = Tolerance(0.0, 0.0)


class TorchDevice:
    """What any ``torch.accelerator`` device has in common; adapters override what they know better."""

    __test__: ClassVar[bool] = False

    name: str = ""
    compile_backend: str = "inductor"
    cluster_resource: str = "CPU"
    visible_variable: str = ""
    compile_options: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def preload(cls) -> None:
        """Nothing beyond torch."""

    def describe(self) -> Description:
        """Ask ``torch.<name>`` for availability and count."""
        import torch

        module = getattr(torch, self.name, None)
        available = bool(module is not None and module.is_available())
        reason = "" if available else f"torch {torch.__version__} has no usable device {self.name!r}"
        return Description(
            name=self.name,
            available=available,
            reason=reason,
            count=module.device_count() if available else 0,  # type: ignore[union-attr]
            versions=self.versions(),
            compile_backend=self.compile_backend,
        )

    def versions(self) -> Mapping[str, str]:
        """Versions of what the device is made of."""
        import torch

        return {"torch": str(torch.__version__)}

    def tolerance(self, dtype: str) -> Tolerance:
        """See :data:`OPERATOR_TOLERANCES`; integers and booleans are exact."""
        return OPERATOR_TOLERANCES.get(dtype, EXACT)

    def compiled_tolerance(self, dtype: str) -> Tolerance:
        """The same as :meth:`tolerance`."""
        return self.tolerance(dtype)

    def model_tolerance(self, dtype: str) -> Tolerance:
        """See :data:`MODEL_TOLERANCES`; integers and booleans are exact."""
        return MODEL_TOLERANCES.get(dtype, EXACT)

    def record(self, *, pair: bool = False) -> AbstractContextManager[Recorder]:
        """Find fallbacks by their shadow in the profiler; ``pair`` changes nothing here."""
        from harness.devices.shadow import ShadowRecorder

        return ShadowRecorder()

    def synchronize(self) -> None:
        """``torch.accelerator.synchronize`` on the current device."""
        import torch

        torch.accelerator.synchronize()

    def classify(self, error: BaseException) -> Outcome:
        """Read the exception's type: torch's own out-of-memory and not-implemented errors are told apart."""
        import torch

        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return Outcome.OUT_OF_MEMORY
        if isinstance(error, NotImplementedError):
            return Outcome.UNSUPPORTED
        return Outcome.FAILED_EXCEPTION

    def compile_facts(self, *, reset: bool = False) -> CompileFacts:
        """Count the graphs Dynamo captured."""
        from torch._dynamo.utils import counters

        facts = CompileFacts(graphs=counters["stats"]["unique_graphs"])
        if reset:
            counters.clear()
        return facts

    def keep_artefacts(self, folder: Path) -> None:
        """Inductor's cache, which is otherwise below the system's temporary folder."""
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")

    def reset(self) -> None:
        """Return cached memory."""
        import torch

        torch.accelerator.empty_cache()

    def environment(self) -> Mapping[str, str]:
        """Make device-generic tests instantiate for this device and no other."""
        return {"PYTORCH_TESTING_DEVICE_ONLY_FOR": self.name}
