"""Devices, streams and events, through torch.accelerator and torch.neuron."""

import threading
import time

import pytest
import torch


def test_it_is_the_accelerator() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.neuron.device_count() == 2
    assert torch.neuron.get_device_properties(1).total_memory > 0
    assert torch.neuron.is_bf16_supported()
    assert torch.bfloat16 in torch.accelerator.get_device_capability()["supported_dtypes"]


def test_the_current_device_decides_where_tensors_go() -> None:
    assert torch.empty(1, device="neuron").device == torch.device("neuron:0")
    with torch.neuron.device(1):
        assert torch.neuron.current_device() == torch.accelerator.current_device_index() == 1
        assert torch.empty(1, device="neuron").device == torch.device("neuron:1")
        with torch.accelerator.device_index(0):
            assert torch.empty(1, device="neuron").device == torch.device("neuron:0")
    assert torch.neuron.current_device() == 0


def test_the_current_device_is_per_thread() -> None:
    seen = []

    def look() -> None:
        seen.append(torch.neuron.current_device())

    with torch.neuron.device(1):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [0]


@pytest.mark.parametrize("index", [2, 9])
def test_an_index_out_of_range_is_an_error_that_says_so(index: int) -> None:
    with pytest.raises(RuntimeError, match=f"neuron:{index} was asked for, and there are 2 neuron devices"):
        torch.empty(1, device=f"neuron:{index}")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.neuron.set_device(index)
    assert torch.neuron.current_device() == 0


def test_tensors_of_two_devices_do_not_mix() -> None:
    here, there = torch.ones(2, device="neuron:0"), torch.ones(2, device="neuron:1")
    with pytest.raises(RuntimeError, match=r"found at least two devices, neuron:0 and neuron:1"):
        here + there
    with pytest.raises(RuntimeError, match=r"found at least two devices, neuron:0 and cpu"):
        here + torch.ones(2)
    assert (here + torch.tensor(1.0)).tolist() == [2, 2]  # a 0-dim host tensor is a number


def test_backward_crosses_devices() -> None:
    weight = torch.full((3,), 2.0, device="neuron:0", requires_grad=True)
    (weight.to("neuron:1") * torch.arange(3.0, device="neuron:1")).sum().backward()
    assert weight.grad is not None
    assert weight.grad.device == torch.device("neuron:0")
    assert weight.grad.tolist() == [0, 1, 2]


def test_streams_are_distinct_and_current_per_device() -> None:
    stream = torch.neuron.Stream(device=1)
    assert stream != torch.neuron.default_stream(1)
    assert torch.neuron.current_stream(1) == torch.neuron.default_stream(1)
    with stream:
        assert torch.neuron.current_stream(1) == stream
        assert torch.neuron.current_device() == 1
    assert torch.neuron.current_stream(1) == torch.neuron.default_stream(1)
    assert stream.query()
    stream.synchronize()


def test_events_measure_time() -> None:
    first, second = torch.neuron.Event(enable_timing=True), torch.Event("neuron", enable_timing=True)
    first.record()
    first.synchronize()  # where a queue has its own thread, an event is reached after it was recorded
    time.sleep(0.02)
    second.record()
    second.synchronize()
    assert second.query()
    assert 20 <= first.elapsed_time(second) < 2000  # milliseconds


def test_two_of_the_modules_own_events_measure_time_too() -> None:
    first, second = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    first.record()
    second.record()
    second.synchronize()
    assert first.elapsed_time(second) >= 0
    assert isinstance(first, torch.neuron.Event)
    assert not isinstance(torch.Event("cpu"), torch.neuron.Event)


def test_printing_shows_values_and_device() -> None:
    assert (
        repr(torch.tensor([1.5, -2.0], device="neuron:1")) == "tensor([ 1.5000, -2.0000], device='neuron:1')"
    )
    assert repr(torch.tensor([1, 2], device="neuron")) == "tensor([1, 2], device='neuron:0')"


def test_dlpack_keeps_the_memory() -> None:
    tensor = torch.arange(4.0, device="neuron")
    back = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor))
    assert back.device == tensor.device
    assert back.data_ptr() == tensor.data_ptr()


def test_numpy_asks_for_a_copy_first() -> None:
    with pytest.raises(TypeError, match="can't convert neuron:0 device type tensor to numpy"):
        torch.ones(2, device="neuron").numpy()


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="neuron"):
        torch.eye(3, device="neuron").to_sparse()
