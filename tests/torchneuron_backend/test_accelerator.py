"""torch.accelerator, name by name, as any accelerator answers it."""

import gc
import inspect
import threading
from collections.abc import Callable

import pytest
import torch
from torch import accelerator

# Where each public name is tested: here unless said otherwise.
NAMES = {
    "Graph": "test_refusals.py",
    "current_accelerator": "test_device.py",
    "current_device_idx": "a deprecated alias",
    "current_device_index": "",
    "current_stream": "",
    "device_count": "",
    "device_index": "",
    "empty_cache": "",
    "empty_host_cache": "",
    "get_device_capability": "",
    "get_memory_info": "",
    "is_available": "",
    "max_memory_allocated": "",
    "max_memory_reserved": "",
    "memory_allocated": "",
    "memory_reserved": "",
    "memory_stats": "",
    "reset_accumulated_memory_stats": "",
    "reset_peak_memory_stats": "",
    "set_device_idx": "a deprecated alias",
    "set_device_index": "",
    "set_stream": "",
    "synchronize": "",
}


def test_every_public_name_is_tested() -> None:
    assert set(accelerator.__all__) == set(NAMES)
    source = inspect.getsource(inspect.getmodule(test_every_public_name_is_tested))  # type: ignore[arg-type]
    assert [
        name for name, elsewhere in NAMES.items() if not elsewhere and f"accelerator.{name}" not in source
    ] == []


def test_devices() -> None:
    assert accelerator.is_available()
    assert accelerator.device_count() == 2
    assert accelerator.current_device_index() == 0
    accelerator.set_device_index("neuron:1")
    try:
        assert accelerator.current_device_index() == 1
        assert torch.ones(1, device="neuron").device == torch.device("neuron:1")
    finally:
        accelerator.set_device_index(0)


def test_the_device_comes_back_after_an_error() -> None:
    def fail() -> None:
        with accelerator.device_index(1):
            with accelerator.device_index(0):
                assert accelerator.current_device_index() == 0
            with accelerator.device_index(None):
                assert accelerator.current_device_index() == 1
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert accelerator.current_device_index() == 0


OUT_OF_RANGE: dict[str, Callable[[], object]] = {
    "set_device_index": lambda: accelerator.set_device_index(2),
    "device_index": lambda: accelerator.device_index(2).__enter__(),
    "memory_allocated": lambda: accelerator.memory_allocated(2),
    "memory_stats": lambda: accelerator.memory_stats(2),
    "get_memory_info": lambda: accelerator.get_memory_info(2),
    "synchronize": lambda: accelerator.synchronize(2),
    "current_stream": lambda: accelerator.current_stream(2),
    "reset_peak_memory_stats": lambda: accelerator.reset_peak_memory_stats(2),
}


@pytest.mark.parametrize("call", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_an_index_out_of_range_is_an_error_that_says_so(call: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match="neuron:2 was asked for, and there are 2 neuron devices"):
        call()
    assert accelerator.current_device_index() == 0


def test_a_device_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="doesn't match the current accelerator neuron"):
        accelerator.set_device_index("cpu")


def test_every_device_can_do_the_same() -> None:
    supported = accelerator.get_device_capability("neuron:1")["supported_dtypes"]
    assert supported == accelerator.get_device_capability("neuron:0")["supported_dtypes"]
    assert {torch.bfloat16, torch.float16, torch.float32, torch.int64, torch.bool} <= supported
    assert torch.float64 not in supported
    assert torch.float8_e4m3fn not in supported


def test_the_books_of_memory() -> None:
    gc.collect()
    accelerator.empty_cache()
    accelerator.empty_host_cache()
    accelerator.reset_peak_memory_stats(1)
    accelerator.reset_accumulated_memory_stats(1)
    held, reserved = accelerator.memory_allocated(1), accelerator.memory_reserved(1)
    tensor = torch.empty(1 << 20, dtype=torch.uint8, device="neuron:1")
    assert accelerator.memory_allocated(1) == accelerator.max_memory_allocated(1) == held + (1 << 20)
    del tensor
    assert accelerator.memory_allocated(1) == held
    assert accelerator.max_memory_allocated("neuron:1") == held + (1 << 20)
    assert accelerator.memory_reserved(1) == accelerator.max_memory_reserved(1) == reserved + (1 << 20)
    stats = accelerator.memory_stats(1)
    assert stats["allocated_bytes.all.allocated"] == stats["allocated_bytes.all.freed"] == 1 << 20
    assert stats["num_ooms"] == 0
    free, total = accelerator.get_memory_info(1)
    assert total - free == accelerator.memory_reserved(1)
    accelerator.empty_cache()
    assert accelerator.memory_reserved(1) == reserved
    accelerator.reset_peak_memory_stats(1)
    accelerator.reset_accumulated_memory_stats(1)
    assert accelerator.max_memory_allocated(1) == held
    assert accelerator.memory_stats(1)["allocated_bytes.all.allocated"] == 0


def test_running_out_is_counted() -> None:
    accelerator.reset_accumulated_memory_stats(0)
    before = accelerator.memory_stats(0)["num_ooms"]
    with pytest.raises(
        torch.OutOfMemoryError, match=r"neuron:0 out of memory\. Tried to allocate 1099511627776 bytes"
    ):
        torch.empty(1 << 40, dtype=torch.uint8, device="neuron:0")
    assert accelerator.memory_stats(0)["num_ooms"] == before + 1
    accelerator.reset_accumulated_memory_stats(0)
    assert accelerator.memory_stats(0)["num_ooms"] == accelerator.memory_stats(0)["num_alloc_retries"] == 0


def test_streams_are_current_per_device() -> None:
    stream = torch.Stream("neuron:1")
    before = accelerator.current_stream(1)
    assert stream != before
    accelerator.set_stream(stream)
    try:
        assert accelerator.current_stream(1) == stream
        assert accelerator.current_device_index() == 1
    finally:
        accelerator.set_stream(before)
        accelerator.set_device_index(0)
    accelerator.synchronize()
    accelerator.synchronize("neuron:1")
    assert accelerator.current_stream(1) == before


def test_threads_work_on_devices_of_their_own() -> None:
    wrong: list[str] = []
    together = threading.Barrier(4)

    def work(index: int) -> None:
        together.wait()
        for _ in range(50):
            accelerator.set_device_index(index)
            product = torch.ones(10, 10, device="neuron") @ torch.ones(10, 10, device="neuron")
            if product.device.index != index or accelerator.current_device_index() != index:
                wrong.append(f"{product.device} in the thread of neuron:{index}")
            if product.sum().item() != 1000:
                wrong.append("the numbers")

    threads = [threading.Thread(target=work, args=(number % 2,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert accelerator.current_device_index() == 0
