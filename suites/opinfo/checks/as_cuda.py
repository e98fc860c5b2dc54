"""CPU tensors that the dispatcher takes for CUDA's, so that it casts them as CUDA's autocast does.

The installed torch has CUDA's casting lists in every build, and autocast comes before any kernel: with
tensors that call themselves CUDA's it casts, and what it then calls is run on the CPU. So the reference needs
neither a GPU nor a copy of the lists, and is that of the torch under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_map

_SOFTMAX = (torch.ops.aten._softmax.default, torch.ops.aten._log_softmax.default)
_DEVICE = torch.device("cuda:0")  # with a number: without, torch asks the driver for it


class AsCuda(torch.Tensor):
    """A strided CPU tensor under the name of CUDA.

    Raises:
        RuntimeError: from operators that insist on a CUDA driver before they are dispatched.
    """

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> AsCuda:
        made: AsCuda = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=_DEVICE,
        )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = _on_cpu(func, *tree_map(unwrap, args), **tree_map(unwrap, kwargs))
        return return_and_correct_aliasing(func, args, kwargs, tree_map(wrap, result))


def _on_cpu(func: Any, *args: Any, **kwargs: Any) -> Any:
    if func in _SOFTMAX and args[2]:  # CUDA's kernel casts while it reads, the CPU has none that does
        return func(args[0].float(), args[1], False)
    return func(*args, **kwargs)


class _Factories(TorchDispatchMode):
    """Makes on the CPU what an operator composed of others wants made on the device of its arguments."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if any(issubclass(one, AsCuda) for one in types) or device is None or device.type != _DEVICE.type:
            return func(*args, **kwargs)
        return wrap(func(*args, **tree_map(unwrap, kwargs)))


def wrap(value: Any) -> Any:
    """A CPU tensor as one of CUDA; anything else as it is.

    Raises:
        ValueError: the tensor is not strided.
    """
    if not isinstance(value, torch.Tensor) or isinstance(value, AsCuda):
        return value
    if value.layout != torch.strided:
        raise ValueError(f"a tensor of layout {value.layout} cannot be shown as CUDA's")
    return AsCuda(value)


def unwrap(value: Any) -> Any:
    """The other way round; of devices too."""
    if isinstance(value, AsCuda):
        return value.held
    if isinstance(value, torch.device) and value.type == _DEVICE.type:
        return torch.device("cpu")
    return value


@contextmanager
def autocast(dtype: torch.dtype) -> Iterator[None]:
    """CUDA's autocast; ``torch.autocast`` would refuse without a driver."""
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    torch.autocast_increment_nesting()
    try:
        with _Factories():
            yield
    finally:
        if not torch.autocast_decrement_nesting():
            torch.clear_autocast_cache()
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])
