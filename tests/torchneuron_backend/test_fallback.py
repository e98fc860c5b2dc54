"""The fallback: any operator with a CPU kernel works on copies, and its writes come back."""

from typing import get_args

import pytest
import torch

import torchneuron_backend
from tests.torchneuron_backend.conftest import LIBRARY
from torchneuron_backend import eager

OPS = torch.ops.neuron_tests


def test_writes_to_a_list_of_tensors_come_back() -> None:
    xs = [torch.arange(4.0, device="neuron")[::2], torch.ones(2, device="neuron")]
    OPS.scale_all_(xs, torch.tensor(3.0, device="neuron"), [None, torch.tensor(1.0, device="neuron")])
    assert [x.tolist() for x in xs] == [[1, 7], [4, 4]]
    assert {
        r["route"] for r in torchneuron_backend.op_counters() if r["op"] == "neuron_tests::scale_all_"
    } == {"fallback"}


def test_the_same_tensor_twice_is_written_once() -> None:
    x = torch.ones(2, device="neuron")
    OPS.scale_all_([x, x], torch.tensor(2.0, device="neuron"), [])
    assert x.tolist() == [4, 4]


def test_an_argument_that_grows_grows_on_the_device() -> None:
    out = torch.empty(0, device="neuron")
    assert OPS.grow(torch.tensor([1.0, 2.0], device="neuron"), out) is out
    assert out.tolist() == [1, 2, 1, 2]


def test_results_and_lists_of_results_come_back() -> None:
    one, many = OPS.two(torch.ones(2, device="neuron:1"))
    assert {t.device for t in (one, *many)} == {torch.device("neuron:1")}
    assert one.tolist() == [2, 2]
    assert [t.tolist() for t in many] == [[1, 1], [2, 2]]


def test_a_view_cannot_fall_back() -> None:
    with pytest.raises(NotImplementedError, match="half_view appears to be a view operator"):
        OPS.half_view(torch.ones(4, device="neuron"))


def test_an_op_without_any_kernel_says_so() -> None:
    LIBRARY.define("no_kernel(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="no native lowering, and no CPU kernel to fall back to"):
        OPS.no_kernel(torch.ones(1, device="neuron"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_foreach_ops_equal_the_cpu(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    on_cpu = [torch.randn(n, dtype=dtype) for n in (1, 3, 40)]
    on_device = [x.to("neuron") for x in on_cpu]
    torch._foreach_mul_(on_cpu, 2.0)
    torch._foreach_mul_(on_device, 2.0)
    torch._foreach_addcdiv_(on_cpu, on_cpu, on_cpu, 0.5)
    torch._foreach_addcdiv_(on_device, on_device, on_device, 0.5)
    assert all(a.equal(b.cpu()) for a, b in zip(on_cpu, on_device, strict=True))
    norms = torch._foreach_norm(on_device)
    assert all(a.equal(b.cpu()) for a, b in zip(torch._foreach_norm(on_cpu), norms, strict=True))


def test_a_long_list_keeps_each_tensor_apart() -> None:
    xs = [torch.full((2,), float(i), device="neuron") for i in range(50)]
    torch._foreach_add_(xs, 1.0)
    assert [x[0].item() for x in xs] == [i + 1.0 for i in range(50)]


@pytest.mark.parametrize("name", ["sort", "unique", "nonzero", "cumsum", "lgamma", "svdvals", "fft"])
def test_all_sorts_of_ops_equal_the_cpu(name: str) -> None:
    torch.manual_seed(0)
    x = torch.rand(4, 4).round(decimals=1)
    call = {
        "sort": lambda t: t.sort(dim=0)[1],
        "unique": lambda t: torch.unique(t, return_counts=True)[1],
        "nonzero": torch.nonzero,
        "cumsum": lambda t: t.cumsum(1),
        "lgamma": torch.lgamma,
        "svdvals": torch.linalg.svdvals,
        "fft": lambda t: torch.fft.fft(t).abs(),
    }[name]
    result = call(x.to("neuron"))
    assert result.device.type == "neuron"
    assert result.cpu().equal(call(x))


def test_vmap_and_functionalize_work_through_it() -> None:
    x = torch.arange(6.0, device="neuron").view(3, 2)
    assert torch.vmap(lambda row: row.cumsum(0).lgamma().sum())(x + 1).shape == (3,)
    pure = torch.func.functionalize(lambda t: t.clone().lgamma_().add_(1))
    assert pure(x + 2).cpu().equal((x.cpu() + 2).lgamma() + 1)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integers_have_a_histogram_as_on_other_accelerators(dtype: torch.dtype) -> None:
    experts = torch.tensor([0, 3, 3, 1, 3], dtype=dtype, device="neuron")
    counts = torch.histc(experts, bins=4, min=0, max=3)
    assert (counts.dtype, counts.device.type) == (dtype, "neuron")
    assert counts.tolist() == [1, 1, 0, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16])
@pytest.mark.parametrize("engine", get_args(eager.Engine))
def test_positions_in_memory_mean_the_memory_that_the_argument_lies_in(
    engine: eager.Engine, dtype: torch.dtype
) -> None:
    """Not the order of its elements: they differ where it has gaps or begins further on."""
    host = torch.arange(24).to(dtype)
    device = host.to("neuron")
    new = torch.full((2, 2), -1, dtype=dtype)
    with eager.engine(engine):
        for view in (lambda x: x[::2], lambda x: x[4:], lambda x: x.view(4, 6).t(), lambda x: x):
            copies = [torch.as_strided_copy(view(x), (2, 2), (4, 1), 1) for x in (host, device)]
            assert torch.equal(copies[0], copies[1].cpu())
            scattered = [
                torch.as_strided_scatter(view(x), new.to(x.device), (2, 2), (4, 1), 2) for x in (host, device)
            ]
            assert torch.equal(scattered[0], scattered[1].cpu())
    assert torch.equal(device.cpu(), host)
