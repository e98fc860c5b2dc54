"""Samples of an operator: generated once on the CPU, then copied, as they lie in memory, per run.

Generating "the same" samples on each device does not give the same samples: op_db's generators
look at the device. And a sample is copied for every run, because operators such as batch_norm
write into their arguments.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy
import torch

from suites.opinfo.traits import Traits

SAMPLES = 20
"""Most samples that a case runs."""

POOL = 100
"""Samples generated to choose from; op_db has up to 1,440 for one operator, the simplest first."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The arguments of one call of an operator."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

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


def generate(info: Any, dtype: torch.dtype, seed: int) -> list[Call]:
    """The samples of a case: the same ones for the same seed, bounded as `chosen_samples` says."""
    return [call_of(sample) for sample in chosen_samples(info, dtype, seed)]


def chosen_samples(info: Any, dtype: torch.dtype, seed: int, requires_grad: bool = False) -> list[Any]:
    """The same ``SampleInput`` objects on the CPU for the same seed.

    At most `SAMPLES`, spread evenly over the first `POOL`, first and last included.
    """
    seed_everything(seed)
    # Not by info.sample_inputs: around this it looks through the call stack, milliseconds a case, and
    # seeds anew before every sample, with one seed for all cases.
    stream: Iterator[Any] = iter(info.sample_inputs_func(info, "cpu", dtype, requires_grad))
    pool = list(itertools.islice(stream, POOL))
    if len(pool) > SAMPLES:
        pool = [pool[round(place * (len(pool) - 1) / (SAMPLES - 1))] for place in range(SAMPLES)]
    return pool


def call_of(sample: Any) -> Call:
    """The arguments of a ``SampleInput``."""
    return Call((sample.input, *sample.args), dict(sample.kwargs))


def place(call: Call, device: str, op: str, traits: Traits) -> Call:
    """Copy a call's arguments onto a device.

    Tensors keep their strides and offsets, and those that share memory share it again. A device
    among the arguments becomes this one, and a factory that names none is given it.
    """
    mover = _Mover(device)
    keep = {position + 1 for position in traits.cpu_arguments.get(op, ())}
    args = tuple(
        _Mover("cpu").tree(value) if position in keep else mover.tree(value)
        for position, value in enumerate(call.args)
    )
    kwargs = {name: mover.tree(value) for name, value in call.kwargs.items()}
    if op in traits.factories:
        kwargs.setdefault("device", device)
    return Call(args, kwargs)


class _Mover:
    """Copies trees of arguments to a device; remembers storages, so that sharing survives."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._storages: dict[int, torch.Tensor] = {}

    def tree(self, value: Any) -> Any:
        """Copy what is a tensor, rewrite what is a device, keep the rest."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
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
        if tensor.layout != torch.strided or type(tensor) is not torch.Tensor:
            return tensor.to(self.device, copy=True)
        if tensor.is_conj():
            return self._tensor(tensor.conj()).conj()
        if tensor.is_neg():
            return torch._neg_view(self._tensor(torch._neg_view(tensor)))
        storage = self._storage(tensor.untyped_storage()).untyped_storage()
        empty = torch.empty(0, dtype=tensor.dtype, device=self.device)
        return empty.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())

    def _storage(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """The whole memory behind a tensor, as bytes on the device."""
        key = storage.data_ptr()
        if key not in self._storages or not key:  # empty storages have no address and share nothing
            flat = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
            self._storages[key] = flat.to(self.device, copy=True)
        return self._storages[key]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor of a tree of mappings, lists and tuples, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
