"""Device memory: books, limit, cache, and the border to host memory."""

import gc
import os
from collections.abc import Iterator

import pytest
import torch

from torchneuron_backend import memory

MEGABYTE = 1 << 20


@pytest.fixture
def limited() -> Iterator[int]:
    """Device 1 with room for 4 MiB."""
    torch.neuron.empty_cache()
    torch.neuron.set_memory_limit(4 * MEGABYTE, 1)
    yield 4 * MEGABYTE
    torch.neuron.set_memory_limit(0, 1)


def test_the_books_follow_tensors() -> None:
    gc.collect()
    before = torch.neuron.memory_allocated(1)
    tensor = torch.empty(MEGABYTE, dtype=torch.uint8, device="neuron:1")
    assert torch.neuron.memory_allocated(1) - before == MEGABYTE
    assert torch.neuron.memory_reserved(1) >= torch.neuron.memory_allocated(1)
    del tensor
    assert torch.neuron.memory_allocated(1) == before
    assert torch.accelerator.max_memory_allocated(1) >= before + MEGABYTE
    torch.accelerator.reset_peak_memory_stats(1)
    assert torch.accelerator.max_memory_allocated(1) == before
    assert torch.neuron.memory_stats(1)["allocated_bytes.all.current"] == before


def test_results_of_kernels_are_in_the_books() -> None:
    ones = torch.ones(MEGABYTE // 4, device="neuron:1")
    before = torch.neuron.memory_allocated(1)
    result = ones + 1
    assert torch.neuron.memory_allocated(1) - before == MEGABYTE
    del result
    assert torch.neuron.memory_allocated(1) == before


def test_freed_blocks_are_reused_until_the_cache_is_emptied() -> None:
    torch.neuron.empty_cache()
    first = torch.empty(3 * MEGABYTE, dtype=torch.uint8, device="neuron:1")
    address = first.data_ptr()
    assert address % 64 == 0
    del first
    second = torch.empty(3 * MEGABYTE, dtype=torch.uint8, device="neuron:1")
    assert second.data_ptr() == address
    del second
    assert torch.neuron.memory_reserved(1) - torch.neuron.memory_allocated(1) >= 3 * MEGABYTE
    torch.neuron.empty_cache()
    assert torch.neuron.memory_reserved(1) == torch.neuron.memory_allocated(1)


def test_beyond_the_limit_is_out_of_memory(limited: int) -> None:
    with pytest.raises(torch.OutOfMemoryError, match=f"neuron:1 out of memory.*capacity of {limited} bytes"):
        torch.empty(limited + 1, dtype=torch.uint8, device="neuron:1")
    half = torch.empty(limited // 2, dtype=torch.uint8, device="neuron:1")
    with pytest.raises(torch.OutOfMemoryError):
        torch.cat([half, half, half])
    del half
    torch.empty(limited - 2 * MEGABYTE, dtype=torch.uint8, device="neuron:1")  # there is room again
    assert torch.neuron.mem_get_info(1)[1] == limited


def test_the_cache_makes_room_before_memory_runs_out(limited: int) -> None:
    for size in (MEGABYTE, 2 * MEGABYTE, 3 * MEGABYTE, 4 * MEGABYTE):
        torch.empty(size, dtype=torch.uint8, device="neuron:1")
    assert torch.neuron.memory_reserved(1) <= limited


def test_nothing_leaks() -> None:
    layer = torch.nn.Linear(16, 16, device="neuron:1")
    steps = torch.optim.Adam(layer.parameters(), fused=True)

    def step() -> None:
        steps.zero_grad()
        out = layer(torch.randn(4, 16).to("neuron:1")).double().cosh()
        out.sum().backward()
        steps.step()
        with pytest.raises(RuntimeError):
            layer(torch.ones(3, 3, device="neuron:1"))

    step()
    gc.collect()
    torch.neuron.empty_cache()
    held = torch.neuron.memory_allocated(1), torch.neuron.memory_reserved(1)
    for _ in range(20):
        step()
    gc.collect()
    torch.neuron.empty_cache()
    assert (torch.neuron.memory_allocated(1), torch.neuron.memory_reserved(1)) == held


@pytest.mark.parametrize(
    ("before", "after"), [("cpu", "neuron"), ("neuron", "cpu"), ("neuron:0", "neuron:1")]
)
def test_data_can_be_exchanged_for_that_of_another_device(before: str, after: str) -> None:
    tensor, other = torch.zeros(2, device=before), torch.ones(3, device=after)
    tensor.data = other
    assert (tensor.device, tensor.tolist()) == (other.device, [1, 1, 1])
    assert tensor.data_ptr() == other.data_ptr()


def test_a_host_alias_shares_bytes_and_geometry() -> None:
    tensor = torch.arange(12.0, device="neuron").view(3, 4).t()[1:]
    alias = memory.host_alias(tensor)
    assert alias.device == torch.device("cpu")
    assert (alias.shape, alias.stride(), alias.storage_offset()) == ((3, 3), (1, 4), 1)
    assert alias.data_ptr() == tensor.data_ptr()
    alias[0, 0] = 100
    assert tensor[0, 0].item() == 100
    del tensor
    gc.collect()
    assert alias[0, 0].item() == 100  # the alias keeps the memory


def test_only_a_neuron_tensor_has_a_host_alias() -> None:
    with pytest.raises(TypeError, match="takes a dense neuron tensor"):
        memory.host_alias(torch.ones(1))


def test_adopted_memory_is_the_devices() -> None:
    host = torch.arange(6.0).view(2, 3)
    before = torch.neuron.memory_allocated(1)
    tensor = memory.adopt(host, 1)
    assert tensor.device == torch.device("neuron:1")
    assert (tensor.data_ptr() == host.data_ptr()) == (os.environ.get("TORCHNEURON_PROTECT") != "1")
    assert torch.neuron.memory_allocated(1) - before == 64
    del host
    gc.collect()
    assert tensor.cpu().tolist() == [[0, 1, 2], [3, 4, 5]]
    del tensor
    assert torch.neuron.memory_allocated(1) == before


def test_pinned_memory_is_known_as_such() -> None:
    pinned = torch.ones(10).pin_memory()
    assert pinned.is_pinned()
    assert pinned[3:].is_pinned()
    assert not torch.ones(10).is_pinned()
    assert pinned.to("neuron", non_blocking=True).cpu().equal(pinned)


def test_a_data_loader_pins_what_it_loads() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0), torch.arange(8))
    for numbers, labels in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True):
        assert numbers.is_pinned()
        assert labels.is_pinned()
        assert numbers.to("neuron").cpu().equal(numbers)


def test_storages_resize_and_copy() -> None:
    tensor = torch.arange(4.0, device="neuron")
    storage = tensor.untyped_storage()
    storage.resize_(32)
    assert storage.nbytes() == 32
    assert tensor.tolist() == [0, 1, 2, 3]
    assert storage.cpu().device == torch.device("cpu")
    assert storage.clone().device == torch.device("neuron:0")


def test_resize_keeps_what_fits_and_fills_the_rest_when_deterministic() -> None:
    tensor = torch.arange(3.0, device="neuron")
    torch.use_deterministic_algorithms(True)
    try:
        tensor.resize_(2, 3)
        fresh = torch.empty(2, device="neuron")
        whole = torch.empty(2, dtype=torch.int32, device="neuron")
    finally:
        torch.use_deterministic_algorithms(False)
    assert tensor[0].tolist() == [0, 1, 2]
    assert tensor[1].isnan().all()
    assert fresh.isnan().all()
    assert whole.tolist() == [torch.iinfo(torch.int32).max] * 2


def test_set_shares_storage() -> None:
    base, other = torch.arange(6.0, device="neuron"), torch.empty(0, device="neuron")
    other.set_(base.untyped_storage(), 2, (2, 2), (1, 2))
    other[0, 0] = 9
    assert base.tolist() == [0, 1, 9, 3, 4, 5]
    assert other.set_(base).is_set_to(base)
    assert other.set_().numel() == 0
