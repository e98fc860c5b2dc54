"""One call of an operator, as the compiled engine looks at it: its functional form, what it writes, its
signature, and what the host's kernel makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_map_only

from . import memory
from .errors import CallRefusedError
from .graph import dtype_name, operator_name
from .single import functional_form


class HostKernelError(Exception):
    """The host's kernel raises ``error``, and so must the call."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class Answer:
    """What the host's kernels give: of the functional form, and in copies of what the call writes."""

    returned: Any
    written: list[torch.Tensor]


class Call:
    """``overload(*args, **kwargs)``, with tensors of the device or the host; device and generator are left
    out of it.

    Raises CallRefusedError where there is no functional form that a program could compute.
    """

    def __init__(
        self, overload: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.overload = overload
        self.args, self.kwargs = tree_map(_on_host, (args, kwargs))
        self._written = _names_written(overload)
        self.functional = self._functional_form()

    def _functional_form(self) -> torch._ops.OpOverload:
        schema = self.overload._schema
        found = functional_form(self.overload) if schema.is_mutable else self.overload
        if found is None:
            raise CallRefusedError("no overload computes the same without writing to an argument")
        if found is torch.ops.aten.native_batch_norm.default:
            named = self._named()
            statistics = (named.get("running_mean"), named.get("running_var"))
            if named["training"] and all(isinstance(each, torch.Tensor) for each in statistics):
                return torch.ops.aten._native_batch_norm_legit_functional.default
        return found

    def _named(self) -> dict[str, Any]:
        return _by_name(self.overload, self.args, self.kwargs)

    def functional_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the functional form."""
        outs = {argument.name for argument in self.overload._schema.arguments if argument.is_out}
        return self.args, {name: value for name, value in self.kwargs.items() if name not in outs}

    def takes_tensors(self) -> bool:
        """False for a factory."""
        return any(isinstance(leaf, torch.Tensor) for leaf in tree_flatten((self.args, self.kwargs))[0])

    def targets(self) -> list[tuple[int, torch.Tensor]]:
        """The tensors that the call may write, each after its place among them in the order of the schema.

        In the order in which a functional form returns them: those of ``out=`` first.
        """
        named, numbered, place = self._named(), [], 0
        outs = {argument.name for argument in self.overload._schema.arguments if argument.is_out}
        for name in self._written:
            for tensor in _tensors(named.get(name)):
                numbered.append((name not in outs, place, tensor))
                place += 1
        return [(place, tensor) for _, place, tensor in sorted(numbered, key=lambda each: each[:2])]

    def results(self) -> int:
        """How many of its results are no arguments."""
        returns = self.overload._schema.returns
        return sum(result.alias_info is None or not result.alias_info.is_write for result in returns)

    def on_host(self) -> Answer:
        """Run the host's kernels. Raises HostKernelError where the kernel of the call itself raises."""
        args, kwargs = self.functional_arguments()
        random = torch.Tag.nondeterministic_seeded in self.overload.tags
        with torch.random.fork_rng(devices=[], enabled=random):
            written = self._on_copies()
            try:
                return Answer(self.functional(*args, **kwargs), written)
            except Exception as error:
                if self.functional is self.overload:
                    raise HostKernelError(error) from error
                raise CallRefusedError(f"{operator_name(self.functional)} raises: {error}") from error

    def _on_copies(self) -> list[torch.Tensor]:
        if not self._written:
            return []
        args, kwargs = _copies((self.args, self.kwargs))
        try:
            self.overload(*args, **kwargs)
        except Exception as error:
            raise HostKernelError(error) from error
        named = _by_name(self.overload, args, kwargs)
        return [tensor for name in self._written for tensor in _tensors(named.get(name))]

    def __str__(self) -> str:
        """The signature: two calls that have it in common can share a program."""
        storages: list[int] = []

        def describe(value: Any) -> str:
            if isinstance(value, torch.Tensor):
                return _describe(value, storages if self._written else None)
            if isinstance(value, (list, tuple)):
                return f"[{', '.join(map(describe, value))}]"
            return repr(value)

        parts = [describe(value) for value in self.args]
        parts += [f"{name}={describe(value)}" for name, value in self.kwargs.items()]
        return f"{operator_name(self.overload)}({', '.join(parts)})"


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return memory.to_host(value)
    if isinstance(value, torch.Generator):  # its state is for the program to read
        return None
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _names_written(overload: torch._ops.OpOverload) -> list[str]:
    """As the device's plan of the schema has it: what that says is written, and batch norm's statistics."""
    schema = overload._schema
    secret = ("running_mean", "running_var") if schema.name == "aten::native_batch_norm" else ()
    return [
        argument.name
        for argument in schema.arguments
        if (argument.alias_info is not None and argument.alias_info.is_write) or argument.name in secret
    ]


def _by_name(
    overload: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    names = [argument.name for argument in overload._schema.arguments]
    return dict(zip(names, args, strict=False)) | kwargs


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def _describe(tensor: torch.Tensor, storages: list[int] | None) -> str:
    text = f"{dtype_name(tensor.dtype)}[{','.join(map(str, tensor.shape))}]"
    if not tensor.is_contiguous():
        text += f"{{{','.join(map(str, tensor.stride()))}}}"
    if storages is not None:  # something is written: it matters which of the tensors overlap
        start = tensor.untyped_storage().data_ptr()
        if start not in storages:
            storages.append(start)
        text += f"@{storages.index(start)}+{tensor.storage_offset()}"
    return text


def _copies(tree: Any) -> Any:
    """``tree`` with copies of its tensors; what shared memory shares it again."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in storages:
            storages[storage.data_ptr()] = storage.clone()
        fresh = storages[storage.data_ptr()] if storage.nbytes() else storage.clone()
        empty = torch.empty(0, dtype=tensor.dtype)
        return empty.set_(fresh, tensor.storage_offset(), tensor.shape, tensor.stride())

    return tree_map_only(torch.Tensor, copy, tree)
