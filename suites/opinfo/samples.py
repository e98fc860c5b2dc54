"""Samples of an operator: generated once on the CPU, then copied, as they lie in memory, per run.

Generating "the same" samples on each device does not give the same samples: op_db's generators
look at the device. And a sample is copied for every run, because operators such as batch_norm
write into their arguments.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch.nn.attention.flex_attention import BlockMask

from suites.opinfo import module_copies
from suites.opinfo.traits import Traits

if TYPE_CHECKING:
    from suites.opinfo.entries import Entry

SAMPLES = 20
"""Most samples that a case runs."""

POOL = 100
"""Samples generated to choose from; op_db has up to 1,440 for one operator, the simplest first."""


def _unchanged(output: Any) -> Any:
    return output


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The arguments of one call of an operator.

    Attributes:
        differentiated: picks from the result what is to be differentiated (``output_process_fn_grad``).
        form: which of its forms a check made, in words a report can show; ``""`` for the sample itself.
        note: what else a check wants to know of it again.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    differentiated: Callable[[Any], Any] = _unchanged
    form: str = ""
    note: Any = None

    def tensors(self) -> list[torch.Tensor]:
        """Every tensor among the arguments, in order."""
        return list(tensors_in((self.args, self.kwargs)))


def seed_everything(seed: int, device: str = "cpu") -> None:
    """Seed every generator that samples, or an operator on this device, draw from.

    Not by ``torch.manual_seed``: for each backend that is not in use it formats the whole call
    stack, milliseconds at a time, and keeps it for good.
    """
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    if device != "cpu":
        torch.get_device_module(device).manual_seed_all(seed)


def chosen_samples(entry: Entry, dtype: torch.dtype, seed: int, requires_grad: bool = False) -> list[Call]:
    """The same calls on the CPU for the same seed.

    At most `SAMPLES`, spread evenly over the first `POOL`, first and last included.
    """
    seed_everything(seed)
    return spread(list(itertools.islice(entry.samples(dtype, requires_grad), POOL)), SAMPLES)


def spread(calls: list[Call], most: int) -> list[Call]:
    """At most so many, evenly, the first and the last included."""
    if len(calls) <= most:
        return calls
    if most == 1:
        return calls[:1]
    return [calls[round(place * (len(calls) - 1) / (most - 1))] for place in range(most)]


def with_elements(calls: list[Call]) -> list[Call]:
    """Those whose tensors all have elements; all calls if there is no such one."""
    return [call for call in calls if all(tensor.numel() for tensor in call.tensors())] or calls


def call_of(sample: Any) -> Call:
    """The call of a ``SampleInput``."""
    return Call((sample.input, *sample.args), dict(sample.kwargs), sample.output_process_fn_grad)


WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
"""The dtype in which rounding errors of another can be told from wrong results."""


def place(call: Call, device: str, op: str, traits: Traits, *, widen: bool = False) -> Call:
    """Copy a call's arguments onto a device.

    Tensors keep their strides and offsets, and whether they require a gradient; those that share memory share
    it again. A device among the arguments becomes this one, and a factory that names none is given it.

    Args:
        widen: make tensors of what `WIDER` says instead of their own dtype; arguments that are dtypes stay.
    """
    mover = _Mover(device, widen)
    keep = {position + 1 for position in traits.cpu_arguments.get(op, ())}
    args = tuple(
        _Mover("cpu", widen).tree(value) if position in keep else mover.tree(value)
        for position, value in enumerate(call.args)
    )
    kwargs = {name: mover.tree(value) for name, value in call.kwargs.items()}
    if op in traits.factories:
        kwargs.setdefault("device", device)
    return dataclasses.replace(call, args=args, kwargs=kwargs)


class _Mover:
    """Copies trees of arguments to a device; remembers storages, so that sharing survives."""

    def __init__(self, device: str, widen: bool = False) -> None:
        self.device = device
        self._widen = widen
        self._memories: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def tree(self, value: Any) -> Any:
        """Copy what is a tensor, rewrite what is a device, keep the rest."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.nn.Module):
            return module_copies.moved(value, self.device, WIDER if self._widen else None)
        if isinstance(value, BlockMask):
            return value.to(self.device)
        if isinstance(value, torch.device) or value == "cpu":
            return type(value)(self.device)
        if isinstance(value, slice):
            return slice(*map(self.tree, (value.start, value.stop, value.step)))
        if isinstance(value, Mapping):
            return {key: self.tree(item) for key, item in value.items()}
        if type(value) in (list, tuple):  # not the subclasses: a torch.Size stays one
            return type(value)(self.tree(item) for item in value)
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        copied = self._copied(tensor.detach())
        return copied.requires_grad_() if tensor.requires_grad else copied

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout != torch.strided or type(tensor) is not torch.Tensor:
            return tensor.to(self.device, self._dtype(tensor), copy=True)
        if tensor.is_conj():
            return self._copied(tensor.conj()).conj()
        if tensor.is_neg():
            return torch._neg_view(self._copied(torch._neg_view(tensor)))
        storage = self._memory(tensor).untyped_storage()
        empty = torch.empty(0, dtype=self._dtype(tensor), device=self.device)
        return empty.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())

    def _dtype(self, tensor: torch.Tensor) -> torch.dtype:
        return WIDER.get(tensor.dtype, tensor.dtype) if self._widen else tensor.dtype

    def _memory(self, tensor: torch.Tensor) -> torch.Tensor:
        """The whole memory behind a tensor, on the device; once, whoever shares it."""
        storage, wide = tensor.untyped_storage(), self._dtype(tensor)
        # As bytes where nothing is widened, for tensors of two dtypes may share it.
        seen = torch.uint8 if wide is tensor.dtype else tensor.dtype
        key = (storage.data_ptr(), seen)
        if key not in self._memories or not key[0]:  # empty storages have no address and share nothing
            whole = torch.empty(0, dtype=seen).set_(storage, 0, (storage.nbytes() // seen.itemsize,), (1,))
            copied = whole.to(self.device, copy=True) if wide is tensor.dtype else whole.to(self.device, wide)
            self._memories[key] = copied
        return self._memories[key]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor of a tree of mappings, lists and tuples, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif value is None or isinstance(value, (int, float, str)):
        return  # Most of what is asked; the checks below are slow.
    elif isinstance(value, torch.nn.Module):
        yield from module_copies.tensors_of(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], call: Call) -> Call:
    """The call with every tensor replaced by what a function makes of it; the rest is the same."""
    return dataclasses.replace(call, args=_mapped(function, call.args), kwargs=_mapped(function, call.kwargs))


def _mapped(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, torch.nn.Module):
        return module_copies.mapped(function, value)
    if isinstance(value, Mapping):
        return {key: _mapped(function, item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(function, item) for item in value)
    return value
