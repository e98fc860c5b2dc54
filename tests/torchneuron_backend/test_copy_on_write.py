"""Lazy clones, which share memory until one is written, and tensors that hold one number many times."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from torchneuron_backend import eager, launch
from torchneuron_backend.memory import host_alias

DEVICE = "neuron:1"  # not the current one


def values() -> torch.Tensor:
    return torch.tensor([[0.0, 1.0], [2.0, 3.0]], device=DEVICE)


def is_shared(*tensors: torch.Tensor) -> bool:
    addresses = {torch._C._data_address(tensor) for tensor in tensors}
    return len(addresses) == 1 and all(torch._C._is_cow_tensor(tensor) for tensor in tensors)


# Memory of each origin: allocated, taken over from a host kernel, of a fallback, without any, a view's.
SOURCES: dict[str, Callable[[], torch.Tensor]] = {
    "allocated": values,
    "adopted": lambda: values() * 2,
    "of a fallback": lambda: values().double().exp(),
    "empty": lambda: torch.empty(0, 3, device=DEVICE),
    "view": lambda: values().t()[1:],
    "bytes": lambda: torch.arange(5, dtype=torch.uint8, device=DEVICE),
}


@pytest.fixture(params=[True, False], ids=["blocking", "queued"])
def either_launch(request: pytest.FixtureRequest) -> Iterator[None]:
    before = launch.is_launch_blocking()
    launch.set_launch_blocking(request.param)
    yield
    launch.set_launch_blocking(before)


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_a_lazy_clone_shares_the_memory_and_looks_the_same(make: Callable[[], torch.Tensor]) -> None:
    x = make()
    clone = x._lazy_clone()
    assert is_shared(x, clone)
    assert (clone.device, clone.dtype, clone.stride()) == (x.device, x.dtype, x.stride())
    assert torch.equal(clone.cpu(), x.cpu())
    assert is_shared(x, clone)  # comparing reads


def test_memory_is_freed_once_the_last_of_them_is_gone() -> None:
    before = torch.neuron.memory_allocated(DEVICE)
    x = torch.ones(1 << 16, device=DEVICE)
    one = torch.neuron.memory_allocated(DEVICE) - before
    clones = [x._lazy_clone() for _ in range(3)]
    assert torch.neuron.memory_allocated(DEVICE) - before == one
    clones[0].add_(1)
    assert torch.neuron.memory_allocated(DEVICE) - before == 2 * one
    del x, clones
    assert torch.neuron.memory_allocated(DEVICE) == before


READS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "an operator": lambda x, clone: x + clone,
    "a fallback": lambda x, clone: torch.ops.neuron_tests.two(x),
    "a copy to the host": lambda x, clone: clone.cpu(),
    "a copy to another": lambda x, clone: values().copy_(clone),
    "a number": lambda x, clone: clone[1, 0].item(),
    "a view": lambda x, clone: clone.t()[1:],
    "printing": lambda x, clone: repr(clone),
}


@pytest.mark.parametrize("engine", ["host", "compiled"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_does_not_end_the_sharing(read: Callable[..., Any], engine: str) -> None:
    x = values()
    clone = x._lazy_clone()
    with eager.engine(engine):
        read(x, clone)
    assert is_shared(x, clone)


WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "an operator in place": lambda x: x.add_(7),
    "out=": lambda x: torch.add(values(), 7, out=x),
    "a list": lambda x: torch._foreach_add_([x], 7),
    "a fallback": lambda x: torch.ops.neuron_tests.scale_all_([x], torch.tensor(7.0, device=DEVICE), []),
    "a copy from the host": lambda x: x.copy_(torch.full((2, 2), 7.0)),
    "a copy within the device": lambda x: x.copy_(values() + 7),
    "a view": lambda x: x.t()[0].add_(7),
    "an alias on the host": lambda x: host_alias(x).add_(7),
    "random numbers": lambda x: x.normal_(),
    "its storage": lambda x: x.untyped_storage().fill_(7),
}


@pytest.mark.usefixtures("either_launch")
@pytest.mark.parametrize("writes_to", ["the original", "the clone"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writing_one_leaves_the_other(write: Callable[[torch.Tensor], Any], writes_to: str) -> None:
    for _ in range(2):  # what was queued the first time is not waited for the second
        x = values()
        clone = x._lazy_clone()
        written, other = (x, clone) if writes_to == "the original" else (clone, x)
        address = torch._C._data_address(other)
        with torch.neuron.device(0):
            write(written)
        assert other.cpu().tolist() == [[0.0, 1.0], [2.0, 3.0]]
        assert written.cpu().tolist() != other.cpu().tolist()
        assert torch._C._data_address(other) == address != torch._C._data_address(written)
        assert not torch._C._is_cow_tensor(written)
        assert written.untyped_storage().device == torch.device(DEVICE)


@pytest.mark.usefixtures("either_launch")
def test_what_is_queued_before_the_clone_is_in_both_and_what_comes_after_in_one() -> None:
    for _ in range(3):
        x = values()
        x.add_(1)
        clone = x._lazy_clone()
        x.mul_(10)
        clone.sub_(1)
        assert x.cpu().tolist() == [[10.0, 20.0], [30.0, 40.0]]
        assert clone.cpu().tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_the_last_keeps_the_memory() -> None:
    x = values()
    address = torch._C._data_address(x)
    clone = x._lazy_clone()
    del x
    clone.add_(1)
    assert torch._C._data_address(clone) == address
    assert clone.cpu().tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_resizing_one_leaves_the_other_and_its_memory_is_its_own_then() -> None:
    x = values()
    clone = x._lazy_clone()
    clone.resize_(3, 2)
    assert not torch._C._is_cow_tensor(clone)
    clone.zero_()
    assert x.cpu().tolist() == [[0.0, 1.0], [2.0, 3.0]]
    x._lazy_clone().untyped_storage().resize_(0)
    assert x.cpu().tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_memory_with_another_owner_is_copied_at_once() -> None:
    storage = values().untyped_storage()
    part = torch.empty(0, device=DEVICE).set_(storage[8:])
    clone = part._lazy_clone()
    assert clone.cpu().tolist() == [2.0, 3.0]
    part.zero_()
    assert clone.cpu().tolist() == [2.0, 3.0]


def test_a_lazy_clone_has_a_gradient() -> None:
    x = values().requires_grad_()
    x._lazy_clone().mul(3).sum().backward()
    assert x.grad is not None
    assert x.grad.cpu().tolist() == [[3.0, 3.0], [3.0, 3.0]]


# A dtype that is native and some that fall back.
@pytest.mark.parametrize("engine", ["host", "compiled"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.uint16, torch.float64, torch.complex64])
def test_a_number_that_many_elements_share_is_filled(dtype: torch.dtype, engine: str) -> None:
    with eager.engine(engine):
        x = torch.empty_strided((3, 4), (1, 0), dtype=dtype, device=DEVICE).fill_(2)
        y = torch.empty(1, dtype=dtype, device=DEVICE).expand(4).zero_()
    assert x.tolist() == [[2] * 4] * 3
    assert y.tolist() == [0] * 4


def test_so_it_is_where_64_bits_are_computed_in_32() -> None:
    from torchneuron_backend import numerics

    numerics.set_64_bit_policy("32")
    try:
        x = torch.empty_strided((3,), (0,), dtype=torch.int64, device=DEVICE).fill_(2**31)
    finally:
        numerics.set_64_bit_policy("exact")
    assert x.tolist() == [-(2**31)] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_operators_refuse_such_elements_as_on_the_host(dtype: torch.dtype) -> None:
    x = torch.empty_strided((3,), (0,), dtype=dtype, device=DEVICE)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.add_(1)
