"""The ``neuron`` device: the simulator in this repository, or the real ``torch_neuronx`` where installed."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

from harness.devices.base import Description, TorchDevice
from harness.devices.recording import CallRecorder
from harness.telemetry import attribute
from results.calls import merge
from results.events import OpCall
from results.vocabulary import Outcome, Route
from suites.device import CompileFacts, Recorder, Tolerance

# What the lowering probe allows a compiled operator against the CPU: 8 roundings in a two-byte dtype, 256 in
# float32, relative and, for results of about one that cancel, absolute.
_COMPILED_TOLERANCES: Mapping[str, Tolerance] = {
    "float16": Tolerance(8 * 2.0**-10, 8 * 2.0**-10),
    "bfloat16": Tolerance(8 * 2.0**-7, 8 * 2.0**-7),
    "float32": Tolerance(256 * 2.0**-23, 256 * 2.0**-23),
}

_COMPILER_PACKAGES = ("torch-mlir", "jaxlib")


@functools.cache
def is_real() -> bool:
    """Whether the device is AWS's own package; the simulator steps aside for it."""
    return importlib.util.find_spec("torch_neuronx") is not None


class NeuronDevice(TorchDevice):
    """Drives whichever of the two is installed; only the simulator can count calls exactly."""

    name = "neuron"
    compile_backend = "neuron"
    cluster_resource = "neuron_cores"
    visible_variable = "NEURON_RT_VISIBLE_CORES"
    compile_options: ClassVar[Mapping[str, Any]] = {"dynamic": False}

    @classmethod
    def preload(cls) -> None:
        """The simulator's compiler: Torch-MLIR and XLA are large libraries."""
        if not is_real():
            from torchneuron_backend.compiler import lowering

            lowering.preload()

    def describe(self) -> Description:
        """Adds, for the simulator, why its extension could not be loaded."""
        try:
            return super().describe()
        except (ImportError, RuntimeError) as error:
            return Description("neuron", False, str(error), 0, self.versions(), self.compile_backend)

    def versions(self) -> Mapping[str, str]:
        """Adds the runtime and compiler packages, and the simulator's engine of eager mode."""
        versions = dict(super().versions())
        if is_real():
            versions["implementation"] = f"torch-neuronx {version('torch-neuronx')}"
            return versions
        versions["implementation"] = f"simulator {version('torchneuron-harness')}"
        versions["eager_engine"] = _eager_engine()
        for package in _COMPILER_PACKAGES:
            try:
                versions[package] = version(package)
            except PackageNotFoundError:
                versions[package] = "not installed"
        return versions

    def tolerance(self, dtype: str) -> Tolerance:
        """Wider for the simulator's compiled engine, whose operators round as compiled programs do."""
        compiled = not is_real() and _eager_engine() == "compiled"
        return (_COMPILED_TOLERANCES if compiled else {}).get(dtype) or super().tolerance(dtype)

    def compiled_tolerance(self, dtype: str) -> Tolerance:
        """Wider for the simulator: a compiled program rounds at other places than the CPU's kernels."""
        return (_COMPILED_TOLERANCES if not is_real() else {}).get(dtype) or super().tolerance(dtype)

    def record(self, *, pair: bool = False) -> AbstractContextManager[Recorder]:
        """Read the simulator's counters; the real device offers names without counts."""
        if is_real():
            return _NamesRecorder()
        return _PairingRecorder() if pair else _CountersRecorder()

    def keep_artefacts(self, folder: Path) -> None:
        """The simulator's compile cache as well."""
        super().keep_artefacts(folder)
        os.environ["TORCHNEURON_CACHE_DIR"] = str(folder / "neuron")

    def classify(self, error: BaseException) -> Outcome:
        """An operator the compiler cannot lower is the device's documented limit, not a failure."""
        if not is_real():
            from torchneuron_backend.compiler import UnsupportedOperatorError, find_compiler_error

            if isinstance(find_compiler_error(error), UnsupportedOperatorError):
                return Outcome.UNSUPPORTED
        return super().classify(error)

    def compile_facts(self, *, reset: bool = False) -> CompileFacts:
        """Read the compiler's metrics; what Dynamo captured is not proof that it was compiled."""
        if is_real():
            return super().compile_facts(reset=reset)
        from torchneuron_backend import compiler

        metrics = compiler.get_dynamo_metrics()
        facts = CompileFacts(
            graphs=metrics["graphs_compiled"],
            partitions=metrics["partitions"],
            eager_calls=sum(calls for _, calls in metrics["ops_eager"]),
            cache_hits=metrics["cache_hits"],
            executions=metrics["executions"],
            seconds=metrics["lowering_seconds"] + metrics["compile_seconds"],
            calls=merge(
                [
                    OpCall(called=op.operator, executed=op.operator, dtype=op.dtype, device_calls=op.calls)
                    for op in compiler.compiled_ops()
                ]
            ),
        )
        if reset:
            compiler.reset_dynamo_metrics()
        return facts

    def environment(self) -> Mapping[str, str]:
        """Make upstream's device-generic tests instantiate for the renamed PrivateUse1 device."""
        return {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "privateuse1"}


def _eager_engine() -> str:
    try:
        from torchneuron_backend import eager

        return eager.get_engine()
    except (ImportError, RuntimeError):
        return "unknown"


class _CountersRecorder(CallRecorder):
    """The difference of the simulator's counters over the context; called and executed op are one."""

    def start(self) -> None:
        """Set the counters to nothing."""
        import torchneuron_backend

        torchneuron_backend.reset_op_counters()

    def stop(self, *, wait: bool) -> tuple[OpCall, ...]:
        """Read the counters."""
        import torch

        import torchneuron_backend

        if wait:
            torch.accelerator.synchronize()
        return merge([_call(row) for row in torchneuron_backend.op_counters()])


def _call(row: Mapping[str, Any]) -> OpCall:
    native = row["route"] == Route.NATIVE
    return OpCall(
        called=row["op"],
        executed=row["op"],
        dtype=row["dtype"],
        device_calls=row["calls"] if native else 0,
        fallback_calls=0 if native else row["calls"],
        device_ns=row["ns"] if native else 0,
        fallback_ns=0 if native else row["ns"],
        bytes_moved=row["bytes"],
    )


class _PairingRecorder(_CountersRecorder):
    """Calls with the op the program called beside the kernel that ran; times include the pairing."""

    def start(self) -> None:
        """Follow every dispatched op as well."""
        from harness.devices.pairing import PairingMode

        super().start()
        self._mode = PairingMode()
        self._mode.__enter__()

    def stop(self, *, wait: bool) -> tuple[OpCall, ...]:
        """Say of each counted kernel which op was called."""
        self._mode.__exit__(None, None, None)
        return attribute(super().stop(wait=wait), self._mode.calls())


class _NamesRecorder(CallRecorder):
    """What the real device tells: which ops ran and which fell back, as sets of names.

    ``torch_neuronx.get_executed_ops`` and ``get_fallback_ops`` keep no counts, so every name
    counts once a stage; compare sets on this device, not shares of calls.
    """

    def start(self) -> None:
        """Forget the names."""
        import torch_neuronx

        torch_neuronx.clear_op_tracking()

    def stop(self, *, wait: bool) -> tuple[OpCall, ...]:
        """One call a name."""
        import torch
        import torch_neuronx

        if wait:
            torch.accelerator.synchronize()
        fallen = set(torch_neuronx.get_fallback_ops())
        ran = set(torch_neuronx.get_executed_ops()) - fallen
        return merge(
            [OpCall(called=name, executed=name, dtype="", device_calls=1) for name in ran]
            + [OpCall(called=name, executed=name, dtype="", fallback_calls=1) for name in fallen]
        )
