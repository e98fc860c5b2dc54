"""Storages of the device, typed and untyped, and the pinned ones that belong to it."""

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

DEVICE = "neuron:1"
BYTES = [0, 1, 2, 3, 4, 5, 6, 7]


def storage() -> torch.UntypedStorage:
    return torch.tensor(BYTES, dtype=torch.uint8, device=DEVICE).untyped_storage()


@pytest.fixture
def typed() -> Iterator[torch.TypedStorage]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TypedStorage is deprecated")
        yield torch.arange(4.0, device=DEVICE).storage()


def test_it_knows_where_and_how_big_it_is() -> None:
    made = storage()
    assert made.device == torch.device(DEVICE)
    assert (made.nbytes(), made.size(), len(made)) == (8, 8, 8)
    assert made.is_neuron
    assert not torch.ones(1).untyped_storage().is_neuron
    assert made.type() == "torch.storage.UntypedStorage"
    assert "device=neuron:1" in repr(made)
    assert made.resizable()


@pytest.mark.parametrize(
    ("device", "index"), [("neuron", 0), ("neuron:1", 1), (torch.device("neuron", 1), 1)]
)
def test_it_can_be_made_by_itself(device: Any, index: int) -> None:
    made = torch.UntypedStorage(8, device=device)
    assert (made.device, made.nbytes()) == (torch.device("neuron", index), 8)


def test_bytes_are_read_and_written() -> None:
    made = storage()
    made[1] = 9
    assert (made[1], made.tolist(), list(made)[-1]) == (9, [0, 9, 2, 3, 4, 5, 6, 7], 7)
    made.fill_(3)
    assert made.tolist() == [3] * 8
    with pytest.raises(IndexError):
        made[8]


def test_a_slice_shares_the_memory() -> None:
    made = storage()
    part = made[2:4]
    assert (part.device, part.tolist()) == (torch.device(DEVICE), [2, 3])
    part[0] = 99
    assert made[2] == 99


MOVES: dict[str, tuple[Callable[[torch.UntypedStorage], torch.UntypedStorage], str]] = {
    "cpu": (lambda made: made.cpu(), "cpu"),
    "neuron": (lambda made: made.neuron(0), "neuron:0"),
    "to": (lambda made: made.to(device="neuron:0"), "neuron:0"),
    "clone": (lambda made: made.clone(), DEVICE),
    "copy": (copy.copy, DEVICE),
    "deepcopy": (copy.deepcopy, DEVICE),
    "copy_ to the host": (lambda made: torch.UntypedStorage(8).copy_(made), "cpu"),
    "copy_ to a device": (lambda made: torch.UntypedStorage(8, device="neuron:0").copy_(made), "neuron:0"),
    "copy_ from the host": (lambda made: storage().copy_(torch.UntypedStorage(BYTES)), DEVICE),
}


@pytest.mark.parametrize(("move", "device"), MOVES.values(), ids=MOVES)
def test_moving_copies_the_bytes(
    move: Callable[[torch.UntypedStorage], torch.UntypedStorage], device: str
) -> None:
    made = storage()
    moved = move(made)
    assert (moved.device, moved.tolist()) == (torch.device(device), BYTES)
    assert moved.data_ptr() != made.data_ptr()
    assert made.neuron(1).data_ptr() == made.data_ptr()  # it is there already


def test_resizing_keeps_what_fits() -> None:
    made = storage()
    made.resize_(3)
    assert made.tolist() == BYTES[:3]
    made.resize_(0)
    assert (made.nbytes(), made.data_ptr()) == (0, 0)
    made.resize_(16)
    assert made.nbytes() == 16


def test_bytes_are_swapped_by_the_host() -> None:
    made = storage()
    made.byteswap(torch.int32)
    assert made.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]
    host = torch.UntypedStorage(BYTES)
    host.byteswap(torch.int16)
    assert host.tolist() == [1, 0, 3, 2, 5, 4, 7, 6]


def test_a_storage_keeps_its_memory_without_a_tensor() -> None:
    made = torch.arange(4, dtype=torch.uint8, device=DEVICE).untyped_storage()
    again = torch.empty(0, dtype=torch.uint8, device=DEVICE).set_(made)
    assert again.tolist() == [0, 1, 2, 3]
    assert again.untyped_storage().data_ptr() == made.data_ptr()


@pytest.mark.parametrize("other", ["cpu", "neuron:0"])
def test_a_storage_of_another_device_cannot_be_set(other: str) -> None:
    with pytest.raises(RuntimeError, match="the devices must match"):
        torch.empty(0, device=DEVICE).set_(torch.ones(2, device=other).untyped_storage())


@pytest.mark.parametrize("device", ["neuron", DEVICE])
def test_none_is_made_in_memory_shared_between_processes(device: str) -> None:
    with pytest.raises(NotImplementedError, match="does not support sharing its memory between processes"):
        torch.UntypedStorage._new_shared(4, device=device)
    with pytest.raises(NotImplementedError, match="does not support sharing its memory between processes"):
        torch.ones(1, device=device)._typed_storage()._new_shared(4, device=device)
    assert torch.UntypedStorage._new_shared(4).is_shared()


def test_typed_storages_do_the_same(typed: torch.TypedStorage) -> None:
    typed[1] = 9
    assert (typed[1], typed.tolist(), typed.dtype) == (9.0, [0, 9, 2, 3], torch.float32)
    assert (typed.device, typed.is_neuron, len(typed)) == (torch.device(DEVICE), True, 4)
    assert typed.neuron(0).device == torch.device("neuron:0")
    assert typed.cpu().tolist() == [0, 9, 2, 3]
    assert typed.double().device == torch.device(DEVICE)


def test_typed_storages_have_no_deprecated_class_of_the_device(typed: torch.TypedStorage) -> None:
    assert typed.type() == "torch.storage.TypedStorage"
    assert torch.ones(1, device=DEVICE).storage_type() is None
    assert not hasattr(torch.neuron, "FloatStorage")


@pytest.mark.filterwarnings("ignore:The argument 'device' of Tensor:DeprecationWarning")
def test_host_storages_are_pinned_for_the_device() -> None:
    host = torch.arange(4.0).untyped_storage()
    pinned = host.pin_memory("neuron")
    assert (host.is_pinned("neuron"), pinned.is_pinned("neuron"), pinned.is_pinned()) == (False, True, True)
    assert pinned.tolist() == host.tolist()
    view = torch.tensor(()).set_(pinned[4:], size=(2,), stride=(1,), storage_offset=0)
    assert view.is_pinned()
    assert view.tolist() == [1, 2]


def test_device_memory_is_not_pinned() -> None:
    with pytest.raises(TypeError, match="only CPU memory can be pinned"):
        storage().pin_memory()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(1, device=DEVICE).pin_memory()
    assert not torch.ones(1, device=DEVICE).is_pinned()


def test_a_copy_that_need_not_wait_arrives_in_pinned_memory() -> None:
    on_device = torch.arange(6.0, device=DEVICE)
    host = on_device.to("cpu", non_blocking=True)
    torch.neuron.synchronize(1)
    assert host.is_pinned()
    assert host.tolist() == on_device.tolist()
    assert not on_device.cpu().is_pinned()
    assert host.to("neuron:0", non_blocking=True).to(DEVICE, non_blocking=True).equal(on_device)
