"""Entries of ``optim_db``: some steps of an optimizer on small parameters under fixed gradients."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import _get_capturable_supported_devices
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._foreach_utils import (
    _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices,
)

from suites.opinfo.entries import Entry, Wrap, as_it_is
from suites.opinfo.samples import Call

OPTIM_DB = "optim_db"

STEPS = 3

SHAPES = ((4, 3), (2, 5), (6,), ())

REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)

FOR_LOOP = "for_loop"
CAPTURABLE = "capturable"
IMPLEMENTATIONS = ("foreach", "fused", "differentiable")
"""Arguments of which at most one may be true."""

CHECKED_BY = ("forward", "determinism", "noncontiguous", "compile")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """How to make an optimizer: the first argument of a call, which no device sees.

    Attributes:
        sparse: whether it takes sparse gradients and no others.
        closure: whether its step wants a function that computes the loss again.
    """

    optimizer: type[torch.optim.Optimizer]
    arguments: dict[str, Any]
    sparse: bool = False
    closure: bool = False

    def make(self, parameters: Sequence[Tensor]) -> Any:
        """The optimizer; capturing means nothing on the CPU, which refuses it, so that it is left out there.

        Raises:
            NotImplementedError: torch does not offer this implementation on the parameters' device.
        """
        arguments = copy.deepcopy(self.arguments)
        device = parameters[0].device.type
        if device == "cpu":
            arguments.pop(CAPTURABLE, None)
        else:
            _require(arguments, CAPTURABLE, device, _get_capturable_supported_devices())
            _require(arguments, "fused", device, _get_fused_kernels_supported_devices())
            _require(arguments, "foreach", device, _get_foreach_kernels_supported_devices())
        return self.optimizer(parameters, **arguments)


def _require(arguments: dict[str, Any], name: str, device: str, supported: Collection[str]) -> None:
    if arguments.get(name) and device not in supported:
        raise NotImplementedError(f"torch offers {name}=True on {', '.join(supported)}, not on {device}")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OptimizerEntry:
    """An ``OptimizerInfo`` in one implementation: ``for_loop``, ``foreach``, ``fused``, ….

    The arguments of a call are the recipe, the parameters, and a list of gradients for each step.
    """

    info: Any
    implementation: str

    database = OPTIM_DB
    noun = "optimizer"
    paired = True
    gradient_dtypes = ()
    twice = False
    takes_out = False
    in_place = None

    @property
    def name(self) -> str:
        """``Adam.foreach``."""
        return f"{self.info.name}.{self.implementation}"

    @property
    def dtypes(self) -> Collection[torch.dtype]:
        """Of parameters and gradients: what the list does not say, so those that a program may have."""
        return (*REAL, *COMPLEX) if self.info.supports_complex else REAL

    def lacks(self, check: str) -> str:
        """A step has no arguments that these could vary."""
        return "" if check in CHECKED_BY else f"a step of an optimizer is nothing that {check!r} could check"

    def samples(self, dtype: torch.dtype, requires_grad: bool) -> Iterator[Call]:
        """One for each configuration that the list has."""
        for arguments in self._configurations(dtype):
            shapes = [shape for shape in SHAPES if len(shape) == 2 or self.info.name != "Muon"]
            parameters = [torch.randn(shape, dtype=dtype) for shape in shapes]
            gradients = [[torch.randn(shape, dtype=dtype) for shape in shapes] for _ in range(STEPS)]
            recipe = Recipe(
                self.info.optim_cls,
                arguments,
                self.info.only_supports_sparse_grads,
                self.info.step_requires_closure,
            )
            yield Call((recipe, parameters, gradients), {})

    def _configurations(self, dtype: torch.dtype) -> Iterator[dict[str, Any]]:
        flags = [name for name in IMPLEMENTATIONS if name in self.info.supported_impls]
        off = dict.fromkeys(flags, False)
        # Those with capturable=True are listed for CUDA alone.
        listed = self.info.optim_inputs_func("cuda" if self.implementation == CAPTURABLE else "cpu", dtype)
        for config in listed:
            arguments = off | config.kwargs
            if self.implementation == FOR_LOOP:
                yield arguments
            elif self.implementation != CAPTURABLE:
                yield arguments | {self.implementation: True}
            elif arguments.get(CAPTURABLE):
                yield arguments
                yield arguments | {"foreach": True}

    def run(self, call: Call, wrap: Wrap = as_it_is) -> Any:
        """The parameters and the optimizer's state after all steps."""
        recipe, tensors, gradients = call.args
        parameters: list[Tensor] = [nn.Parameter(tensor) for tensor in tensors]
        if recipe.arguments.get("differentiable"):  # it writes with a history, so not into leaves
            parameters = [parameter.clone() for parameter in parameters]
        optimizer = recipe.make(parameters)
        step = wrap(optimizer.step)
        for of_step in gradients:
            if recipe.closure:
                step(_closure(optimizer, parameters, of_step))
                continue
            for parameter, gradient in zip(parameters, of_step, strict=True):
                parameter.grad = gradient.to_sparse() if recipe.sparse else gradient
            step()
        result: dict[str, Any] = {"parameters": [parameter.detach() for parameter in parameters]}
        if not recipe.closure:  # LBFGS keeps differences of nearly equal numbers, which are rounding errors
            result["state"] = [_plain(optimizer.state[parameter]) for parameter in parameters]
        return result

    def errors(self) -> Iterable[Any] | None:
        """What an optimizer refuses, its constructor refuses on any device."""
        return None


def _closure(optimizer: Any, parameters: Sequence[Tensor], targets: Sequence[Tensor]) -> Any:
    def loss() -> Tensor:
        optimizer.zero_grad()
        distances = [(one - two).abs().square().sum() for one, two in zip(parameters, targets, strict=True)]
        total = torch.stack(distances).sum()
        total.backward()
        return total

    return loss


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    """State by name; single numbers without their tensors, which may be on the CPU or on the device."""
    return {
        name: value.item() if isinstance(value, Tensor) and value.dim() == 0 else value
        for name, value in sorted(state.items())
    }


def _implementations(info: Any) -> Iterator[str]:
    yield FOR_LOOP
    yield from (name for name in IMPLEMENTATIONS if name in info.supported_impls)
    if info.has_capturable_arg:
        yield CAPTURABLE


def named() -> list[tuple[str, Entry]]:
    """Every entry of the installed torch, in every implementation, with its name."""
    made = [OptimizerEntry(info, way) for info in optim_db for way in _implementations(info)]
    return [(entry.name, entry) for entry in made]
