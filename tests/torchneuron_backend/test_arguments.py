"""Arguments at the edges: host numbers beside device tensors, host indices, out=, empty, overlapping."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

DEVICE = "neuron"
NUMBER = torch.tensor(2.0)


def ones() -> torch.Tensor:
    return torch.ones(3, device=DEVICE)


WITH_A_HOST_NUMBER: dict[str, Callable[[], torch.Tensor]] = {
    "right": lambda: ones() * NUMBER,
    "left": lambda: NUMBER * ones(),
    "in place": lambda: ones().mul_(NUMBER),
    "out": lambda: torch.mul(ones(), NUMBER, out=torch.empty(3, device=DEVICE)),
    "where": lambda: torch.where(ones() > 0, NUMBER, ones()),
    "masked_fill": lambda: ones().masked_fill(ones() > 0, NUMBER),
    "index_put": lambda: ones().index_put((torch.arange(3, device=DEVICE),), NUMBER),
    "copy_": lambda: ones().copy_(NUMBER),
    "a foreach list": lambda: torch._foreach_mul([ones()], NUMBER)[0],
    "maximum": lambda: torch.maximum(ones(), NUMBER),
    "assignment": lambda: _assigned(slice(None), NUMBER),
}


@pytest.mark.parametrize("call", WITH_A_HOST_NUMBER.values(), ids=WITH_A_HOST_NUMBER)
def test_a_0_dim_host_tensor_is_a_number(call: Callable[[], torch.Tensor]) -> None:
    result = call()
    assert (result.device.type, result.tolist()) == (DEVICE, [2, 2, 2])


def _assigned(where: Any, value: torch.Tensor) -> torch.Tensor:
    tensor = ones()
    tensor[where] = value
    return tensor


def test_numbers_do_not_promote_as_tensors_do() -> None:
    half = torch.ones(2, dtype=torch.bfloat16, device=DEVICE)
    assert (half * NUMBER).dtype == torch.bfloat16
    assert (half * torch.tensor(2.0, device=DEVICE)).dtype == torch.bfloat16
    assert (half * torch.ones(1, device=DEVICE)).dtype == torch.float32
    assert (torch.ones(2, dtype=torch.int32, device=DEVICE) * NUMBER).dtype == torch.float32
    assert (torch.tensor(1, device=DEVICE) + NUMBER).dtype == torch.float32


MIXED: dict[str, Callable[[], object]] = {
    "a host vector": lambda: ones() + torch.ones(3),
    "a device number among host tensors": lambda: torch.ones(3) * torch.tensor(2.0, device=DEVICE),
    "a host tensor written": lambda: torch.ones(3).add_(torch.tensor(2.0, device=DEVICE)),
    "a host number written": lambda: torch.tensor(1.0).add_(torch.tensor(2.0, device=DEVICE)),
    "out on the host": lambda: torch.add(ones(), 1, out=torch.empty(3)),
    "out on another device": lambda: torch.add(ones(), 1, out=torch.empty(3, device="neuron:1")),
    "host values put": lambda: ones().index_put_((torch.tensor([1, 2]),), torch.ones(2)),
    "index_select by host indices": lambda: ones().index_select(0, torch.tensor([1])),
    "gather by host indices": lambda: ones().gather(0, torch.tensor([1])),
    "index_add by host indices": lambda: ones().index_add(0, torch.tensor([1]), ones()[:1]),
    "a host mask": lambda: ones().masked_fill(torch.tensor([True, False, True]), 0),
    "equal": lambda: torch.equal(ones(), torch.ones(3)),
    "cat": lambda: torch.cat([ones(), torch.ones(3)]),
    "linear": lambda: torch.nn.functional.linear(torch.ones(2, 3, device=DEVICE), torch.ones(3, 3)),
    "embedding": lambda: torch.nn.functional.embedding(torch.tensor([0]), torch.ones(3, 3, device=DEVICE)),
    "a foreach list of both": lambda: torch._foreach_add_(
        [ones(), torch.ones(3)], [ones(), torch.ones(3, device="neuron")]
    ),
    "a fused step": lambda: torch._fused_sgd_(
        [ones()],
        [torch.ones(3)],
        [],
        weight_decay=0.0,
        momentum=0.0,
        lr=0.1,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=True,
    ),
}


@pytest.mark.parametrize("call", MIXED.values(), ids=MIXED)
def test_devices_do_not_mix(call: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        call()


def test_indices_may_lie_on_the_host() -> None:
    tensor, host = torch.arange(12.0, device=DEVICE).view(3, 4), torch.tensor([2, 0])
    assert tensor[host].tolist() == tensor[host.to(DEVICE)].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert tensor[host, host.to(DEVICE)].tolist() == [10, 0]
    assert tensor[torch.tensor([True, False, True])].shape == (2, 4)
    tensor[host, host] = torch.tensor([5.0, 6.0], device=DEVICE)
    assert (tensor[2, 2].item(), tensor[0, 0].item()) == (5, 6)


def test_indices_do_not_lie_on_another_device() -> None:
    host, other = torch.ones(3), torch.tensor([0, 1], device="neuron:1")
    sentence = r"indices should be either on cpu or on the same device as the indexed tensor \({}\)"
    with pytest.raises(RuntimeError, match=sentence.format("cpu")):
        host[other]
    with pytest.raises(RuntimeError, match=sentence.format("cpu")):
        host.view(1, 3)[:, other]
    with pytest.raises(RuntimeError, match=sentence.format("cpu")):
        host.index_put_((other,), torch.ones(2))
    with pytest.raises(RuntimeError, match=sentence.format("neuron:0")):
        torch.ones(3, device="neuron:0")[other]
    with pytest.raises(RuntimeError, match=sentence.format("neuron:0")):
        torch.ones(3, device="neuron:0").index_put_((other,), torch.tensor(1.0, device="neuron:0"))
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3, device="neuron:0").index_put_((torch.tensor([0]),), torch.ones(1, device="neuron:1"))


def test_scalars_of_a_foreach_call_lie_on_the_host() -> None:
    scalars = torch.tensor([2.0, 3.0])
    got = torch._foreach_addcmul([ones(), ones()], [ones(), ones()], [ones(), ones()], scalars)
    assert [tensor.tolist() for tensor in got] == [[3, 3, 3], [4, 4, 4]]


def resized(call: Callable[[torch.Tensor], object], out: torch.Tensor) -> tuple[list[float], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(out)
    return out.tolist(), [str(warning.message) for warning in caught]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["native", "fallback"])
def test_out_is_resized_with_torch_s_warning(dtype: torch.dtype) -> None:
    source = torch.ones(3, dtype=dtype, device=DEVICE)
    fits, messages = resized(
        lambda out: torch.add(source, 1, out=out), torch.empty(3, dtype=dtype, device=DEVICE)
    )
    assert (fits, messages) == ([2, 2, 2], [])
    empty, messages = resized(
        lambda out: torch.add(source, 1, out=out), torch.empty(0, dtype=dtype, device=DEVICE)
    )
    assert (empty, messages) == ([2, 2, 2], [])
    for size in (1, 5):
        got, messages = resized(
            lambda out: torch.add(source, 1, out=out), torch.empty(size, dtype=dtype, device=DEVICE)
        )
        assert got == [2, 2, 2]
        assert "was resized since it had shape" in messages[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["native", "fallback"])
def test_out_may_be_a_view_of_anything(dtype: torch.dtype) -> None:
    source, base = torch.arange(3.0, dtype=dtype, device=DEVICE), torch.zeros(9, dtype=dtype, device=DEVICE)
    torch.neg(source, out=base[1:9:3])
    assert base.tolist() == [0, 0, 0, 0, -1, 0, 0, -2, 0]
    square = base.view(3, 3).t()
    torch.add(source.view(3, 1), source, out=square)
    assert base.view(3, 3).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert square.data_ptr() == base.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["native", "fallback"])
def test_in_place_errors_are_torch_s(dtype: torch.dtype) -> None:
    tensor = torch.ones(3, dtype=dtype, device=DEVICE)
    with pytest.raises(
        RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"
    ):
        tensor.add_(torch.ones(2, 3, dtype=dtype, device=DEVICE))
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Int"):
        torch.add(tensor, 1.5, out=torch.empty(3, dtype=torch.int32, device=DEVICE))
    assert tensor.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["native", "fallback"])
def test_overlapping_memory_is_refused_and_left_alone(dtype: torch.dtype) -> None:
    base = torch.arange(5.0, dtype=dtype, device=DEVICE)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        base[:1].expand(3).add_(1)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        base[1:].add_(base[:-1])
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        torch.add(base[:3], 1, out=base[1:4])
    assert base.tolist() == [0, 1, 2, 3, 4]
    base[:2].add_(base[3:])  # the same memory, and no overlap
    torch.neg(base[2:4], out=base[2:4])
    assert base.tolist() == [3, 5, -2, -3, 4]
    base.copy_(torch.arange(5.0, dtype=dtype))
    assert base.unfold(0, 3, 1).sum(1).tolist() == [3, 6, 9]  # reading what overlaps is fine


EMPTY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add": lambda x: x + 1,
    "sum": lambda x: x.sum(),
    "sum over": lambda x: x.sum(0),
    "matmul": lambda x: x @ torch.ones(3, 2, device=x.device),
    "inner": lambda x: x.t() @ x,
    "cat": lambda x: torch.cat([x, torch.ones(1, 3, device=x.device)]),
    "view": lambda x: x.view(3, 0),
    "index": lambda x: x[torch.empty(0, dtype=torch.long, device=x.device)],
    "nonzero": lambda x: x.nonzero(),
    "sort": lambda x: x.sort(0).values,
    "softmax": lambda x: x.softmax(1),
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.t().contiguous(),
    "double": lambda x: x.double().sinh(),
    "prod": lambda x: x.prod(),
    "resize": lambda x: x.clone().resize_(0, 7),
    "norm": lambda x: torch.linalg.norm(x),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (3,)),
    "inverse": lambda x: torch.linalg.inv(torch.empty(0, 3, 3, device=x.device)),
}


@pytest.mark.parametrize("call", EMPTY.values(), ids=EMPTY)
def test_tensors_without_elements(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    expected, got = call(torch.empty(0, 3)), call(torch.empty(0, 3, device=DEVICE))
    assert got.device == torch.device("neuron:0")
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    assert got.cpu().equal(expected)


def test_an_empty_tensor_has_no_memory_and_a_device() -> None:
    empty = torch.empty(0, device="neuron:1")
    assert (empty.data_ptr(), empty.untyped_storage().nbytes()) == (0, 0)
    assert empty.untyped_storage().device == torch.device("neuron:1")
    assert empty.resize_(2).fill_(1).tolist() == [1, 1]
    with pytest.raises(
        RuntimeError, match=r"Expected reduction dim to be specified for input\.numel\(\) == 0"
    ):
        torch.empty(0, device=DEVICE).max()


def test_sizes_that_make_no_sense_are_torch_s_errors() -> None:
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        torch.empty(-1, device=DEVICE)
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        torch.empty(1 << 62, device=DEVICE)


@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format], ids=str)
def test_memory_formats_are_kept(memory_format: torch.memory_format) -> None:
    image = torch.empty(2, 3, 4, 5, device=DEVICE, memory_format=memory_format).normal_()
    for kept in (image, image.clone(), image + 1, torch.empty_like(image), image.to("neuron:1"), image.cpu()):
        assert kept.is_contiguous(memory_format=memory_format)


def test_a_copy_between_devices_keeps_geometry_and_converts() -> None:
    source = torch.arange(6.0, device="neuron:0").view(2, 3).t()
    there = source.to("neuron:1")
    assert (there.device, there.stride(), there.tolist()) == (
        torch.device("neuron:1"),
        (1, 3),
        source.tolist(),
    )
    whole = torch.empty(3, 2, dtype=torch.int32, device="neuron:1").copy_(source)
    assert whole.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert source.to("neuron:0") is source
    assert source.to("neuron:0", copy=True).data_ptr() != source.data_ptr()


def test_complex_and_64_bit_numbers_are_exact() -> None:
    big = torch.tensor([2**53 + 1, -(2**40)], device=DEVICE)
    assert (big * 1 + 1).tolist() == [2**53 + 2, -(2**40) + 1]
    assert (torch.tensor([1 / 3], dtype=torch.float64, device=DEVICE) * 3).item() == 1.0
    number = torch.tensor([3 + 4j], device=DEVICE, requires_grad=True)
    number.abs().sum().backward()
    assert number.abs().item() == 5
    assert number.grad is not None
    torch.testing.assert_close(number.grad.cpu(), torch.tensor([0.6 + 0.8j]))
    wave = torch.arange(4, dtype=torch.float64, device=DEVICE) * 1j
    torch.testing.assert_close(torch.fft.ifft(torch.fft.fft(wave)), wave)


@pytest.mark.parametrize("operator", [torch.any, torch.all])
@pytest.mark.parametrize("dims", [0, (0, 1)], ids=["one dimension", "two"])
def test_a_logical_reduction_writes_bool_and_uint8_only(operator: Callable[..., Any], dims: Any) -> None:
    """As on the host and CUDA; for two dimensions torch brings other devices a form that takes any dtype."""
    tensor = torch.ones(2, 3, device=DEVICE)
    for dtype in (torch.bool, torch.uint8):
        out = torch.zeros(operator(tensor, dims).shape, dtype=dtype, device=DEVICE)
        assert operator(tensor, dims, out=out) is out
        assert out.all()
    with pytest.raises(RuntimeError, match="only supports bool tensor for result, got: Float"):
        operator(tensor, dims, out=torch.empty(0, device=DEVICE))
