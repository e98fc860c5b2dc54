"""What the device does not do: each feature refuses with a sentence that names it and says why."""

import multiprocessing.reduction
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing  # teaches ForkingPickler about tensors
from torch.autograd import forward_ad

SPARSE = r"does not support sparse tensors \(COO, CSR, CSC, BSR, BSC\): its compiler knows dense arrays only"
NESTED = "does not support NestedTensor in the strided layout: its compiler knows arrays of one static shape"
QUANTIZED = "does not support quantized tensors: its compiler has no quantized types"
FORWARD_MODE = r"does not support forward-mode automatic differentiation \(JVP, dual tensors\): it is left"
SHARED = "does not support sharing its memory between processes .*: it belongs to the process that allocated"

DEVICE = torch.device("neuron")


def eye() -> torch.Tensor:
    return torch.eye(4, device=DEVICE)


def compressed(layout: torch.layout) -> torch.Tensor:
    rows, columns, values = torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.ones(2)
    if layout in (torch.sparse_bsr, torch.sparse_bsc):
        values = values.view(2, 1, 1)
    parts = [part.to(DEVICE) for part in (rows, columns, values)]
    return torch.sparse_compressed_tensor(*parts, (2, 2), layout=layout)


def sparse_gradient() -> None:
    weights = torch.nn.Embedding(3, 2, sparse=True, device=DEVICE)
    weights(torch.tensor([1], device=DEVICE)).sum().backward()


SPARSE_CALLS: dict[str, Callable[[], Any]] = {
    "to_sparse": lambda: eye().to_sparse(),
    "to_sparse_csr": lambda: eye().to_sparse_csr(),
    "to_sparse_csc": lambda: eye().to_sparse_csc(),
    "to_sparse_bsr": lambda: eye().to_sparse_bsr((2, 2)),
    "to_sparse_bsc": lambda: eye().to_sparse_bsc((2, 2)),
    "coo": lambda: torch.sparse_coo_tensor([[0, 1], [0, 1]], [1.0, 1.0], (2, 2), device=DEVICE),
    "coo of device tensors": lambda: torch.sparse_coo_tensor(
        torch.tensor([[0, 1]], device=DEVICE), torch.ones(2, device=DEVICE)
    ),
    "csr": lambda: compressed(torch.sparse_csr),
    "csc": lambda: compressed(torch.sparse_csc),
    "bsr": lambda: compressed(torch.sparse_bsr),
    "bsc": lambda: compressed(torch.sparse_bsc),
    "csr of no size": lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0], device=DEVICE),
    "empty coo": lambda: torch.empty(2, 2, layout=torch.sparse_coo, device=DEVICE),
    "zeros csr": lambda: torch.zeros(2, 2, layout=torch.sparse_csr, device=DEVICE),
    "coo from host": lambda: torch.eye(2).to_sparse().to(DEVICE),
    "csr from host": lambda: torch.eye(2).to_sparse_csr().to(DEVICE),
    "host coo times dense": lambda: torch.sparse.mm(torch.eye(4).to_sparse(), eye()),
    "sparse_mask": lambda: eye().sparse_mask(torch.eye(4).to_sparse()),
    "sparse gradient": sparse_gradient,
}


@pytest.mark.parametrize("call", SPARSE_CALLS.values(), ids=SPARSE_CALLS)
def test_sparse_tensors(call: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match=SPARSE):
        call()


NESTED_CALLS: dict[str, Callable[[], Any]] = {
    "of host tensors": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device=DEVICE),
    "of device tensors": lambda: torch.nested.as_nested_tensor(
        [torch.ones(2, device=DEVICE), torch.ones(3, device=DEVICE)]
    ),
    "from host": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).to(DEVICE),
    "from a mask": lambda: torch._nested_tensor_from_mask(
        torch.ones(2, 3, 4, device=DEVICE), torch.ones(2, 3, dtype=torch.bool, device=DEVICE)
    ),
}


@pytest.mark.parametrize("call", NESTED_CALLS.values(), ids=NESTED_CALLS)
def test_nested_tensors(call: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match=NESTED):
        call()


def test_nested_tensors_of_the_host_and_jagged_ones_are_left_alone() -> None:
    assert torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).is_nested
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged, device=DEVICE)
    assert [(2 * part).tolist() for part in jagged.unbind()] == [[2, 2], [2, 2, 2]]


def dual() -> None:
    with forward_ad.dual_level():
        forward_ad.make_dual(eye(), eye())


FORWARD_CALLS: dict[str, Callable[[], Any]] = {
    "make_dual": dual,
    "jvp": lambda: torch.func.jvp(torch.sin, (eye(),), (eye(),)),
    "jacfwd": lambda: torch.func.jacfwd(torch.sin)(eye()),
    "hessian": lambda: torch.func.hessian(lambda x: (x**3).sum())(eye()),
    "linearize": lambda: torch.func.linearize(torch.sin, eye()),
}


@pytest.mark.parametrize("call", FORWARD_CALLS.values(), ids=FORWARD_CALLS)
def test_forward_mode(call: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match=FORWARD_MODE):
        call()


def test_reverse_mode_gives_the_same_product() -> None:
    _, product = torch.autograd.functional.jvp(torch.sin, eye(), eye())
    torch.testing.assert_close(product.cpu(), torch.eye(4).cos() * torch.eye(4))


QUANTIZED_CALLS: dict[str, Callable[[], Any]] = {
    "per tensor": lambda: torch.quantize_per_tensor(eye(), 0.1, 0, torch.qint8),
    "per channel": lambda: torch.quantize_per_channel(
        eye(), torch.ones(4, device=DEVICE), torch.zeros(4, device=DEVICE), 0, torch.qint8
    ),
    "dynamic": lambda: torch.quantize_per_tensor_dynamic(eye(), torch.qint8, False),
    "from host": lambda: torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8).to(DEVICE),
    "empty": lambda: torch.empty(2, dtype=torch.quint8, device=DEVICE),
    "_empty_affine_quantized": lambda: torch._empty_affine_quantized(
        [2], scale=0.1, zero_point=0, dtype=torch.quint8, device=DEVICE
    ),
}


@pytest.mark.parametrize("call", QUANTIZED_CALLS.values(), ids=QUANTIZED_CALLS)
def test_quantized_tensors(call: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match=QUANTIZED):
        call()


DTYPE_CALLS: dict[str, Callable[[torch.dtype], Any]] = {
    "empty": lambda dtype: torch.empty(2, dtype=dtype, device=DEVICE),
    "cast": lambda dtype: eye().to(dtype),
    "from host": lambda dtype: torch.empty(2, dtype=dtype).to(DEVICE),
    "view": lambda dtype: torch.zeros(8, dtype=torch.uint8, device=DEVICE).view(dtype),
}
SMALL_FLOATS = [
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
    torch.float4_e2m1fn_x2,
]


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=str)
@pytest.mark.parametrize("call", DTYPE_CALLS.values(), ids=DTYPE_CALLS)
def test_fp8_and_smaller(call: Callable[[torch.dtype], Any], dtype: torch.dtype) -> None:
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(NotImplementedError, match=f"the dtype {name}: FP8 and smaller floats are in private"):
        call(dtype)
    assert dtype not in torch.accelerator.get_device_capability()["supported_dtypes"]


@pytest.mark.parametrize("dtype", [torch.uint4, torch.int4, torch.uint1, torch.bits8], ids=str)
@pytest.mark.parametrize("call", DTYPE_CALLS.values(), ids=DTYPE_CALLS)
def test_integers_smaller_than_a_byte(call: Callable[[torch.dtype], Any], dtype: torch.dtype) -> None:
    with pytest.raises(NotImplementedError, match=r"it has integers of 8, 16, 32 and 64 bits only"):
        call(dtype)


def test_a_view_of_another_dtype_shares_memory() -> None:
    bits = torch.ones(2, device=DEVICE)
    bits.view(torch.int32)[0] = 0
    assert bits.tolist() == [0, 1]


@pytest.mark.parametrize(
    "name",
    ["graph", "CUDAGraph", "graph_pool_handle", "make_graphed_callables", "is_current_stream_capturing"],
)
def test_graph_capture(name: str) -> None:
    with pytest.raises(AttributeError, match=r"does not support graph capture \(CUDA graphs\), because its"):
        getattr(torch.neuron, name)
    assert not hasattr(torch.neuron, name)


def test_a_name_that_never_was_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'torch.neuron' has no attribute 'no_such_thing'"):
        torch.neuron.no_such_thing  # noqa: B018


def test_torch_s_own_graph_is_refused_by_torch() -> None:
    with pytest.raises(RuntimeError, match="Graph is not supported on device type: neuron"):
        torch.accelerator.Graph()


def in_a_pickle_for_another_process(thing: Any) -> Any:
    return multiprocessing.reduction.ForkingPickler.dumps(thing)


SHARING_CALLS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: eye().share_memory_(),
    "storage": lambda: eye().untyped_storage().share_memory_(),
    "module": lambda: torch.nn.Linear(1, 1, device=DEVICE).share_memory(),
    "queue": lambda: in_a_pickle_for_another_process(eye()),
    "queue of a storage": lambda: in_a_pickle_for_another_process(eye().untyped_storage()),
}


@pytest.mark.parametrize("call", SHARING_CALLS.values(), ids=SHARING_CALLS)
def test_sharing_memory(call: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match=SHARED):
        call()
    assert not eye().is_shared()


def test_sharing_host_memory_works_as_ever() -> None:
    assert torch.ones(2).share_memory_().is_shared()
    assert not torch.ones(2).is_shared()


def test_events_between_processes() -> None:
    with pytest.raises(NotImplementedError, match="does not support events shared between processes"):
        torch.neuron.Event(interprocess=True)


def test_a_mapped_file(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=r"does not support torch.from_file: device memory cannot"):
        torch.from_file(str(tmp_path / "file"), shared=True, size=2, device="neuron")


def test_mkldnn() -> None:
    with pytest.raises(NotImplementedError, match="has dense tensors only, and this one is of layout Mkldnn"):
        eye().to_mkldnn()


def test_from_dlpack_works_although_torch_does_not_know_the_device() -> None:
    tensor = torch.arange(4.0, device="neuron:1")[1:]
    back = torch.from_dlpack(tensor)
    assert (back.device, back.data_ptr(), back.tolist()) == (tensor.device, tensor.data_ptr(), [1, 2, 3])
    assert torch.from_dlpack(torch.ones(2)).device == torch.device("cpu")


def test_cuda_array_interface() -> None:
    with pytest.raises(AttributeError, match="Can't get __cuda_array_interface__ on non-CUDA tensor"):
        eye().__cuda_array_interface__  # noqa: B018


def attention(device: str) -> torch.Tensor:
    torch.manual_seed(0)
    query, mask = torch.rand(1, 2, 4, 8), torch.rand(1, 1, 4, 4) > 0.3
    mask[..., 0] = True
    query, mask = query.to(device), mask.to(device)
    return torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)


def upsampled(device: str, mode: str) -> torch.Tensor:
    image = torch.arange(12.0, device=device).view(1, 1, 3, 4)
    return torch.nn.functional.interpolate(image, scale_factor=2, mode=mode)


NOT_REFUSED: dict[str, Callable[[str], torch.Tensor]] = {
    "attention mask": attention,
    "bilinear": lambda device: upsampled(device, "bilinear"),
    "bicubic": lambda device: upsampled(device, "bicubic"),
    "window": lambda device: torch.signal.windows.hann(5, device=device),
    "conjugate": lambda device: torch.tensor([1 + 2j], device=device).conj() * 2,
    "negative": lambda device: torch.tensor([1 + 2j], device=device).conj().imag + 1,
}


@pytest.mark.parametrize("call", NOT_REFUSED.values(), ids=NOT_REFUSED)
def test_what_the_real_device_leaves_out_and_this_one_does_right(call: Callable[[str], torch.Tensor]) -> None:
    result = call("neuron")
    assert result.device.type == "neuron"
    torch.testing.assert_close(result.cpu(), call("cpu"))
