"""What the tests of the device share: a custom operator that can only fall back, and child processes."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

import torchneuron_backend
from torchneuron_backend import faults, launch

LIBRARY = torch.library.Library("neuron_tests", "DEF")
LIBRARY.define("scale_all_(Tensor(a!)[] xs, Tensor factor, Tensor?[] extra) -> ()")
LIBRARY.define("grow(Tensor x, Tensor(a!) out) -> Tensor(a!)")
LIBRARY.define("half_view(Tensor(a) x) -> Tensor(a)")
LIBRARY.define("two(Tensor x, Tensor? missing=None) -> (Tensor, Tensor[])")


def scale_all_(xs: list[torch.Tensor], factor: torch.Tensor, extra: list[torch.Tensor | None]) -> None:
    for x in xs:
        assert x.device == factor.device == torch.device("cpu")
        x.mul_(factor)
        for number in extra:
            if number is not None:
                x.add_(number)


def grow(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return out.resize_(2 * x.numel()).copy_(torch.cat([x, x]))


LIBRARY.impl("scale_all_", scale_all_, "CPU")
LIBRARY.impl("grow", grow, "CPU")
LIBRARY.impl("half_view", lambda x: x[: len(x) // 2], "CPU")
LIBRARY.impl("two", lambda x, missing=None: (x + 1, [x, x * 2]), "CPU")


@pytest.fixture(autouse=True)
def clean_device() -> Iterator[None]:
    """Counters at zero before, and no fault or trace left behind, nor an error that nobody has been told."""
    torchneuron_backend.reset_op_counters()
    yield
    faults.clear()
    torchneuron_backend.stop_op_trace()
    for index in range(torch.neuron.device_count()):
        torch.neuron.synchronize(index)


@pytest.fixture
def blocking_launch() -> Iterator[None]:
    """Blocking launch, also where NEURON_LAUNCH_BLOCKING=0 has the tests run asynchronously."""
    before = launch.is_launch_blocking()
    launch.set_launch_blocking(True)
    yield
    launch.set_launch_blocking(before)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter running ``code``, with ``environment`` added to this one's."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
