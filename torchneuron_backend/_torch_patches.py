"""The few methods of torch that ask no backend, and are wrong or silent for this device."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

_NAME = "neuron"
_NOT_SHARED = (
    "The neuron device does not support sharing its memory between processes ({method}): it belongs to the "
    "process that allocated it. Copy the tensor to the host with .cpu() and share that."
)


def install() -> None:
    """Put the patches on; called once, as the device is registered. Other devices keep torch's methods."""
    storage = torch.UntypedStorage
    # setattr, because mypy takes a method for final.
    setattr(torch.Tensor, "__dlpack_device__", _dlpack_device(torch.Tensor.__dlpack_device__))  # noqa: B010
    setattr(storage, "is_shared", _never_shared(storage.is_shared))  # noqa: B010
    # Whoever gets the memory may read it at once.
    setattr(torch.Tensor, "__dlpack__", _after_synchronising(torch.Tensor.__dlpack__))  # noqa: B010
    torch.utils.dlpack.to_dlpack = _after_synchronising(torch.utils.dlpack.to_dlpack)
    # torch takes all device memory for shared and returns; pickling for another process ends in the others.
    for method in ("share_memory_", "_share_fd_cpu_", "_share_filename_cpu_"):
        setattr(storage, method, _refused(getattr(storage, method)))
    new_shared = inspect.getattr_static(storage, "_new_shared").__func__
    setattr(storage, "_new_shared", classmethod(_refused_new_shared(new_shared)))  # noqa: B010
    setattr(storage, "byteswap", _byteswap(storage.byteswap))  # noqa: B010


def _dlpack_device(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch 2.13 compares the device with the literal "privateuse1", which a named one never equals."""

    @functools.wraps(original)
    def dlpack_device(self: torch.Tensor) -> Any:
        device = self.device
        if device.type != _NAME:
            return original(self)
        from torch.utils.dlpack import DLDeviceType

        return DLDeviceType.kDLExtDev, device.index or 0

    return dlpack_device


def _after_synchronising(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def export(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if tensor.device.type == _NAME:
            torch.accelerator.synchronize(tensor.device)
        return original(tensor, *args, **kwargs)

    return export


def _never_shared(original: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(original)
    def is_shared(self: torch.UntypedStorage) -> bool:
        return self.device.type != _NAME and original(self)

    return is_shared


def _refused(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def refused(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == _NAME:
            raise NotImplementedError(_NOT_SHARED.format(method=original.__name__))
        return original(self, *args, **kwargs)

    return refused


def _refused_new_shared(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch gives an ordinary device storage, as CUDA's can be shared between processes."""

    @functools.wraps(original)
    def new_shared(cls: type[torch.UntypedStorage], size: int, *, device: Any = "cpu") -> Any:
        if torch.device(device).type == _NAME:
            raise NotImplementedError(_NOT_SHARED.format(method="_new_shared"))
        return original(cls, size, device=device)

    return new_shared


def _byteswap(original: Callable[..., None]) -> Callable[..., None]:
    """torch swaps in place whatever memory a storage has, which only the host can do to its own."""

    @functools.wraps(original)
    def byteswap(self: torch.UntypedStorage, dtype: torch.dtype) -> None:
        host = self if self.device.type != _NAME else self.cpu()
        original(host, dtype)
        if host is not self:
            self.copy_(host)

    return byteswap
