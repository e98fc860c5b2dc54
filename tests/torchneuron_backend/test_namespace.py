"""The names by which torch knows the device: ``torch.neuron``, methods, types, aliases."""

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

# What code written for "any accelerator" calls through torch.get_device_module().
DEVICE_MODULE = [
    "Event",
    "Stream",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


def test_the_module_has_the_names_that_others_have() -> None:
    assert torch.get_device_module() is torch.get_device_module("neuron") is torch.neuron
    assert [name for name in DEVICE_MODULE if not hasattr(torch.neuron, name)] == []
    assert [name for name in DEVICE_MODULE if not (getattr(torch.neuron, name).__doc__ or "").strip()] == []


def test_the_real_device_s_op_tracking_is_there_too() -> None:
    torch.neuron.clear_op_tracking()
    torch.ones(2, dtype=torch.float64, device="neuron").sinh()
    assert "aten::sinh" in torch.neuron.get_fallback_ops() <= torch.neuron.get_executed_ops()


def test_peers() -> None:
    assert torch.neuron.can_device_access_peer(0, 1)
    assert not torch.neuron.can_device_access_peer(1, 1)
    with pytest.raises(RuntimeError, match="neuron:2 was asked for"):
        torch.neuron.can_device_access_peer(0, 2)


def test_the_name_is_taken_once() -> None:
    assert torch._C._get_privateuse1_backend_name() == "neuron"
    torch.utils.rename_privateuse1_backend("neuron")  # again the same is no change
    with pytest.raises(RuntimeError, match="has already been set"):
        torch.utils.rename_privateuse1_backend("other")
    with pytest.raises(RuntimeError, match="The runtime module of 'neuron' has already been registered"):
        torch._register_device_module("neuron", types.ModuleType("other"))
    with pytest.raises(RuntimeError, match="has already been registered"):
        torch.utils.generate_methods_for_privateuse1_backend()


def test_torch_finds_the_module_s_functions() -> None:
    from torch.utils.backend_registration import _get_custom_mod_func

    assert _get_custom_mod_func("device_count")() == 2
    with pytest.raises(RuntimeError, match=r"Try to call torch\.neuron\.no_such_function"):
        _get_custom_mod_func("no_such_function")


def packed() -> Any:
    return nn.utils.rnn.pack_sequence([torch.ones(2, 3), torch.ones(1, 3)])


MAKERS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: torch.ones(2),
    "untyped storage": lambda: torch.ones(2).untyped_storage(),
    "typed storage": lambda: torch.ones(2)._typed_storage(),
    "packed sequence": packed,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_things_move_and_say_so(make: Callable[[], Any]) -> None:
    assert not make().is_neuron
    assert make().neuron().is_neuron


def test_tensors_and_modules_move_by_any_name_of_the_device() -> None:
    tensor = torch.arange(2.0)
    for where in (1, torch.device("neuron:1")):
        moved = tensor.neuron(where)
        assert (moved.device, moved.tolist()) == (torch.device("neuron:1"), [0, 1])
    assert tensor.neuron(torch.device("neuron")).device == torch.device("neuron:0")
    assert nn.Linear(2, 2).neuron(1).weight.device == torch.device("neuron:1")
    with pytest.raises(RuntimeError, match="Invalid device"):
        tensor.neuron(torch.device("cpu"))


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.bool, "BoolTensor"),
        (torch.float64, "DoubleTensor"),
        (torch.float32, "FloatTensor"),
        (torch.float16, "HalfTensor"),
        (torch.bfloat16, "BFloat16Tensor"),
        (torch.int64, "LongTensor"),
        (torch.int32, "IntTensor"),
        (torch.int16, "ShortTensor"),
        (torch.int8, "CharTensor"),
        (torch.uint8, "ByteTensor"),
    ],
    ids=str,
)
def test_types_have_names(dtype: torch.dtype, name: str) -> None:
    assert torch.empty(1, dtype=dtype, device="neuron").type() == f"torch.neuron.{name}"
    assert torch.ones(2, dtype=dtype).type(f"torch.neuron.{name}").device == torch.device("neuron:0")


def test_torch_s_enumerations_have_an_alias() -> None:
    from torch._C._autograd import DeviceType
    from torch._C._profiler import ProfilerActivity

    assert DeviceType.PrivateUse1 == DeviceType.NEURON
    assert ProfilerActivity.PrivateUse1 == ProfilerActivity.NEURON


def test_it_can_be_the_default_device() -> None:
    with torch.device("neuron:1"):
        made = [torch.ones(2), torch.tensor([1]), torch.arange(3), nn.Linear(2, 2).weight, torch.empty(0)]
    assert {tensor.device for tensor in made} == {torch.device("neuron:1")}
    torch.set_default_device("neuron")
    try:
        assert torch.ones(1).device == torch.device("neuron:0")
    finally:
        torch.set_default_device(None)


def test_tensors_have_no_metadata_of_the_backend_s_own() -> None:
    assert torch._utils.get_tensor_metadata(torch.ones(1, device="neuron")) == {}
