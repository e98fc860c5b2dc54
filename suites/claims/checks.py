"""What refutes a claim, and the small things that most claims need to look."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from results.vocabulary import Outcome
from suites.claims.claim import Subject
from suites.compare import compare


class RefutedError(AssertionError):
    """The statement does not hold; says what was seen."""


class NumbersDifferError(RefutedError):
    """The statement does not hold because of the numbers that came out."""


class NotApplicableError(Exception):
    """The statement cannot be put to this device, or not here; says why."""


def require(holds: bool, seen: str) -> None:
    """Raise RefutedError with what was seen, unless the condition holds."""
    if not holds:
        raise RefutedError(seen)


def require_equal(subject: Subject, actual: Any, expected: Any, what: str) -> None:
    """Raise NumbersDifferError unless the device's result is the CPU's, within the device's tolerance.

    Structure, shape, dtype and the device that tensors are on are compared, too.
    """
    found = compare(actual, expected, subject.tolerance, name=what, device=subject.name)
    if found.outcome is not Outcome.PASSED:
        raise NumbersDifferError(found.message)


def require_refusal(what: str, call: Callable[[], Any], *words: str) -> None:
    """Raise RefutedError unless a call raises and says one of some words: it is refused for its reason."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - what a device raises is its own choice; the words are checked
        said = f"{type(error).__name__}: {error}"
        require(any(word in said.lower() for word in words), f"{what} raised for another reason: {said}")
    else:
        raise RefutedError(f"{what} was not refused")


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Normally distributed numbers on the CPU, the same in each call."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


def device_module(subject: Subject) -> ModuleType:
    """``torch.<device>``."""
    module: ModuleType = torch.get_device_module(subject.name)
    return module


def find_name(subject: Subject, name: str, *modules: str) -> Any:
    """What ``torch_neuronx`` has under a name, in the package or its modules, else the device's own module.

    Raises:
        RefutedError: neither has it.
    """
    places = [f"torch_neuronx{module and '.' + module}" for module in ("", *modules)]
    for place in places:
        module = _import(place)
        if module is not None and hasattr(module, name):
            return getattr(module, name)
    found = getattr(device_module(subject), name, None)
    require(found is not None, f"{name} is neither in {', '.join(places)} nor in torch.{subject.name}")
    return found


def _import(name: str) -> ModuleType | None:
    if importlib.util.find_spec("torch_neuronx") is None:
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def fallen_back(subject: Subject, call: Callable[[], Any]) -> set[str]:
    """The operators that fell back to the CPU in a call, by the device's own tracking."""
    find_name(subject, "clear_op_tracking")()
    call()
    torch.accelerator.synchronize()
    return set(find_name(subject, "get_fallback_ops")())


@contextlib.contextmanager
def host_only_operator() -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """An operator that has a CPU kernel and nothing else, so that no device can have it."""
    library = torch.library.Library("harness_claims", "FRAGMENT")
    try:
        library.define("double_on_host(Tensor x) -> Tensor")
        library.impl("double_on_host", lambda x: x * 2, "CPU")
        library.impl("double_on_host", torch.empty_like, "Meta")
        yield torch.ops.harness_claims.double_on_host
    finally:
        library._destroy()
