"""Each entry of CUDA's casting lists, as torch's own tests of CUDA have them, on the device."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists
from torch.utils._pytree import tree_leaves, tree_map

LOW = torch.float16
# Made on the host, so that collecting tests does not use the device.
LISTS = AutocastTestLists(torch.device("cpu"))
# Kernels of another vendor's library; they exist for CUDA devices alone.
NOT_HERE = {"cudnn_convolution", "cudnn_convolution_transpose"}
# A method of Python 2, and an entry whose equation does not fit its tensors.
NOT_HERE |= {"__div__", "einsum"}


def find(op: str) -> Callable[..., Any]:
    homes = (torch, torch._C._nn, torch._C._linalg, torch.Tensor)
    return next(getattr(home, op) for home in homes[3 * op.startswith("__") :] if hasattr(home, op))


def entries(*names: str) -> Iterator[Any]:
    for name in names:
        for entry in getattr(LISTS, name):
            op, *arguments = entry
            if op in NOT_HERE:
                continue
            kwargs = next((item for item in arguments[1:] if isinstance(item, dict)), {})
            yield pytest.param(find(op), arguments[0], kwargs, id=f"{name}-{op}")


def on_device(value: Any, dtype: torch.dtype | None = None) -> Any:
    def move(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        return item.to("neuron", dtype if dtype and item.is_floating_point() else item.dtype)

    return tree_map(move, value)


def check(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], casts_to: torch.dtype) -> None:
    with torch.autocast("neuron", dtype=LOW):
        got = function(*on_device(args), **kwargs)
    expected = function(*on_device(args, casts_to), **kwargs)
    assert len(tree_leaves(got)) == len(tree_leaves(expected)) > 0
    for ours, theirs in zip(tree_leaves(got), tree_leaves(expected), strict=True):
        if isinstance(theirs, torch.Tensor):
            assert (ours.device, ours.dtype) == (theirs.device, theirs.dtype)
            assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())
        else:
            assert ours == theirs


EINSUM = pytest.param(
    lambda *xs: torch.einsum("bkd,bqd->bqk", *xs), tuple(torch.rand(2, 2, 3, 4)), {}, id="einsum"
)
LOWER = [EINSUM, *entries("torch_fp16", "nn_fp16", "linalg_fp16", "methods_fp16")]
SINGLE = list(entries("torch_fp32", "nn_fp32", "methods_fp32"))
WIDEST = list(
    entries("torch_need_autocast_promote", "torch_expect_builtin_promote", "methods_expect_builtin_promote")
)


@pytest.mark.parametrize(("function", "args", "kwargs"), LOWER)
def test_runs_in_the_lower_precision(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> None:
    check(function, args, kwargs, LOW)


@pytest.mark.parametrize(("function", "args", "kwargs"), SINGLE)
def test_runs_in_float32(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> None:
    check(function, args, kwargs, torch.float32)


@pytest.mark.parametrize(("function", "args", "kwargs"), WIDEST)
def test_runs_in_the_widest_dtype_given(
    function: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> None:
    check(function, args, kwargs, torch.float32)


def test_no_list_is_forgotten() -> None:
    known = {"banned"}  # test_autocast.py
    known |= {"torch_fp16", "nn_fp16", "linalg_fp16", "methods_fp16", "torch_fp32", "nn_fp32", "methods_fp32"}
    known |= {"torch_need_autocast_promote"}
    known |= {"torch_expect_builtin_promote", "methods_expect_builtin_promote"}
    assert {name for name, value in vars(LISTS).items() if isinstance(value, list)} == known


def test_the_default_dtype_is_cuda_s() -> None:
    assert torch.get_autocast_dtype("neuron") == torch.get_autocast_dtype("cuda") == torch.float16
    x = torch.ones(2, 2, device="neuron")
    with torch.autocast("neuron"):
        assert (x @ x).dtype == torch.float16
        with torch.autocast("neuron", enabled=False):
            assert (x @ x).dtype == torch.float32
    assert not torch.is_autocast_enabled("neuron")


def test_casts_of_weights_are_cached_inside() -> None:
    weight = torch.ones(2, 2, device="neuron", requires_grad=True)
    x = torch.ones(2, 2, device="neuron")
    import torchneuron_backend

    with torch.autocast("neuron"):
        x @ weight
        torchneuron_backend.reset_op_counters()
        x @ weight
        copies = [row for row in torchneuron_backend.op_counters() if row["kind"] == "copy"]
    assert sum(row["calls"] for row in copies) == 1  # x, which is no leaf that needs a gradient


def test_custom_functions_are_told_of_it() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="neuron", cast_inputs=torch.float32)
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            assert not torch.is_autocast_enabled("neuron")
            context.save_for_backward(x)
            return x @ x

        @staticmethod
        @torch.amp.custom_bwd(device_type="neuron")
        def backward(context: Any, *grads: torch.Tensor) -> torch.Tensor:
            (x,) = context.saved_tensors
            return grads[0] @ x.t() + x.t() @ grads[0]

    x = torch.ones(2, 2, dtype=LOW, device="neuron", requires_grad=True)
    with torch.autocast("neuron"):
        out = Product.apply(x)
    assert out.dtype == torch.float32
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == LOW
