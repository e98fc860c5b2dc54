"""Entries of ``module_db``: a module is made on the CPU, moved as programs move it, and called."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db
from torch.testing._internal.opinfo.core import ErrorInput, SampleInput

from suites.opinfo.entries import Entry, Wrap, as_it_is
from suites.opinfo.samples import Call

MODULE_DB = "module_db"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ModuleEntry:
    """A ``ModuleInfo``. The first argument of its calls is the module, with parameters and buffers."""

    info: Any

    database = MODULE_DB
    noun = "module"
    paired = True
    takes_out = False
    in_place = None

    @property
    def name(self) -> str:
        """``nn.Linear``."""
        name: str = self.info.name
        return name

    @property
    def dtypes(self) -> Collection[torch.dtype]:
        """Of parameters and arguments."""
        found: Collection[torch.dtype] = self.info.supported_dtypes("cpu")
        return found

    @property
    def gradient_dtypes(self) -> Collection[torch.dtype]:
        """All: module_db has no module without a derivative."""
        return [dtype for dtype in self.dtypes if dtype.is_floating_point or dtype.is_complex]

    @property
    def twice(self) -> bool:
        """``supports_gradgrad``."""
        return bool(self.info.supports_gradgrad)

    def lacks(self, check: str) -> str:
        """Nothing that the other attributes do not say."""
        return ""

    def samples(self, dtype: torch.dtype, requires_grad: bool) -> Iterator[Call]:
        """In training mode and, where that differs, in evaluation mode, by turns.

        Parameters require a gradient only if arguments do: some modules take a shorter way if nothing does.
        """
        modes = (True, False) if self.info.train_and_eval_differ else (True,)
        of_modes = [
            self.info.module_inputs_func(
                self.info, device="cpu", dtype=dtype, requires_grad=requires_grad, training=training
            )
            for training in modes
        ]
        for inputs in itertools.zip_longest(*of_modes):
            for training, sample in zip(modes, inputs, strict=True):
                if sample is not None:
                    yield self._call(sample, dtype, requires_grad, training)

    def _call(self, sample: Any, dtype: torch.dtype, requires_grad: bool, training: bool) -> Call:
        made, given = sample.constructor_input, sample.forward_input
        module = self.info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
        if self.info.is_lazy:
            module(*copy.deepcopy(given.args), **copy.deepcopy(given.kwargs))  # makes its parameters
        module.requires_grad_(requires_grad)
        return Call((module, *given.args), dict(given.kwargs))

    def run(self, call: Call, wrap: Wrap = as_it_is) -> Any:
        """Call the module."""
        module, *args = call.args
        return wrap(module)(*args, **call.kwargs)

    def errors(self) -> Iterable[Any] | None:
        """Those that the call raises; what a constructor refuses, it refuses on any device."""
        if self.info.module_error_inputs_func is None:
            return None
        found = self.info.module_error_inputs_func(
            self.info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
        )
        return [self._error(error) for error in found if error.error_on is ModuleErrorEnum.FORWARD_ERROR]

    def _error(self, error: Any) -> ErrorInput:
        call = self._call(error.module_error_input, torch.float32, False, True)
        module, *args = call.args
        sample = SampleInput(module, args=tuple(args), kwargs=call.kwargs)
        return ErrorInput(sample, error_type=error.error_type, error_regex=error.error_regex)


def named() -> list[tuple[str, Entry]]:
    """Every entry of the installed torch with its name."""
    return [(entry.name, entry) for entry in map(ModuleEntry, module_db)]
