"""DLPack: device memory goes round within torch, and to nobody who would read it on the host."""

from collections.abc import Callable

import numpy
import pytest
import torch
from torch.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("device", ["neuron:0", "neuron:1"])
def test_a_round_trip_keeps_memory_geometry_and_device(dtype: torch.dtype, device: str) -> None:
    tensor = torch.arange(12, device=device).to(dtype).view(3, 4).t()[1:]
    for back in (from_dlpack(to_dlpack(tensor)), torch.from_dlpack(tensor)):
        assert (back.device, back.dtype, back.data_ptr()) == (tensor.device, dtype, tensor.data_ptr())
        assert (back.shape, back.stride()) == (tensor.shape, tensor.stride())
        assert back.equal(tensor)


def test_it_says_which_device_it_is_on() -> None:
    assert torch.ones(1, device="neuron:1").__dlpack_device__() == (DLDeviceType.kDLExtDev, 1)
    assert torch.ones(1).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


def test_the_memory_outlives_the_tensor_it_came_from() -> None:
    back = torch.from_dlpack(torch.arange(4.0, device="neuron"))
    torch.neuron.empty_cache()
    assert (back + 1).tolist() == [1, 2, 3, 4]


def test_an_imported_tensor_is_one_like_any_other() -> None:
    original = torch.arange(4.0, device="neuron")
    back = torch.from_dlpack(original[1:]).requires_grad_()
    (back * 2).sum().backward()
    assert back.grad is not None
    assert back.grad.tolist() == [2, 2, 2]
    with torch.no_grad():
        back.add_(1)
    assert original.tolist() == [0, 2, 3, 4]


def test_a_copy_or_another_device_can_be_asked_for() -> None:
    tensor = torch.arange(3.0, device="neuron:1")
    copied = torch.from_dlpack(tensor, copy=True)
    assert (copied.device, copied.tolist()) == (tensor.device, [0, 1, 2])
    assert copied.data_ptr() != tensor.data_ptr()
    assert torch.from_dlpack(tensor, device="cpu").tolist() == [0, 1, 2]
    assert torch.from_dlpack(torch.ones(2), device="neuron:1").device == torch.device("neuron:1")
    assert torch.from_dlpack(tensor.__dlpack__(dl_device=(DLDeviceType.kDLCPU, 0))).device.type == "cpu"


REFUSALS: dict[str, tuple[Callable[[torch.Tensor], object], str]] = {
    "a gradient": (lambda x: x.requires_grad_().__dlpack__(), "Can't export tensors that require gradient"),
    "a conjugate bit": (lambda x: x.to(torch.cfloat).conj().__dlpack__(), "with the conjugate bit set"),
    "no copy to another device": (
        lambda x: torch.from_dlpack(x, device="cpu", copy=False),
        "cannot move DLPack tensor from device .*kDLExtDev.* without copying",
    ),
    "numpy": (numpy.from_dlpack, "Unsupported device"),
    "an array": (numpy.asarray, "can't convert neuron:0 device type tensor to numpy"),
    "the CUDA array interface": (
        lambda x: x.__cuda_array_interface__,
        "Can't get __cuda_array_interface__ on non-CUDA tensor",
    ),
    "the array interface": (lambda x: x.__array_interface__, "__array_interface__"),
}


@pytest.mark.parametrize(("export", "sentence"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_exported(export: Callable[[torch.Tensor], object], sentence: str) -> None:
    with pytest.raises((BufferError, RuntimeError, TypeError, AttributeError, ValueError), match=sentence):
        export(torch.ones(2, device="neuron"))
