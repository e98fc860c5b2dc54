"""Copies in every direction, and views that alias their base."""

import pytest
import torch

import torchneuron_backend

PLACES = ["cpu", "neuron:0", "neuron:1"]


@pytest.mark.parametrize("source", PLACES)
@pytest.mark.parametrize("target", PLACES)
def test_copies_convert_broadcast_and_respect_strides(source: str, target: str) -> None:
    values = torch.arange(12).view(3, 4)
    into = torch.zeros(2, 4, 3, dtype=torch.float16).to(target).transpose(1, 2)
    into.copy_(values.to(source), non_blocking=True)
    assert into.device == torch.device(target)
    assert into.cpu().equal(values.to(torch.float16).expand(2, 3, 4))


@pytest.mark.parametrize("target", PLACES)
def test_a_slice_can_be_copied_into(target: str) -> None:
    into = torch.zeros(4, 4, device=target)
    into[1:3, ::2] = torch.tensor([[1.0], [2.0]], device="neuron")
    assert into.cpu().sum(1).tolist() == [0, 2, 4, 0]


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int8, torch.int64, torch.bfloat16, torch.float64, torch.complex64]
)
def test_a_round_trip_changes_no_bit(dtype: torch.dtype) -> None:
    values = torch.tensor([0, 1, 3, 2]).to(dtype)
    assert values.to("neuron").to("neuron:1").cpu().equal(values)


def test_conjugate_and_negative_bits_are_resolved() -> None:
    values = torch.tensor([1 + 2j, 3 - 1j], device="neuron")
    assert values.conj().cpu().tolist() == [1 - 2j, 3 + 1j]
    assert values.conj().imag.cpu().tolist() == [-2, 1]
    assert values.conj().resolve_conj().tolist() == [1 - 2j, 3 + 1j]
    assert (values.conj() * 2).tolist() == [2 - 4j, 6 + 2j]


def test_a_tensor_known_to_be_zero_arrives_as_zeros() -> None:
    x = torch.ones(2, 3, device="neuron:1", requires_grad=True)
    (zeros,) = torch.autograd.grad(x.sgn().sum(), x)  # torch makes it without memory
    assert torch._is_zerotensor(zeros)
    expected = torch.zeros(2, 3)
    assert zeros.cpu().equal(expected)
    assert zeros.clone().cpu().equal(expected)
    assert zeros.to("neuron:0").tolist() == (zeros + 0).tolist() == expected.tolist()
    assert torch.ones(2, 3, device="neuron").copy_(zeros).sum().item() == 0
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        zeros.copy_(x.detach())


def test_overlapping_copies_are_refused_as_on_the_cpu() -> None:
    values = torch.ones(4, device="neuron")
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single memory"
    ):
        values[:1].expand(4).copy_(torch.ones(4))
    with pytest.raises(
        RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"
    ):
        torch.add(values[:-1], 1, out=values[1:])


def test_every_kind_of_view_aliases_its_base() -> None:
    base = torch.zeros(4, 2, device="neuron")
    views = {
        "view": base.view(8),
        "transpose": base.t(),
        "as_strided": base.as_strided((2,), (1,), 0),
        "unfold": base.unfold(0, 2, 2),
        "view_as_complex": torch.view_as_complex(base),
        "real": torch.view_as_complex(base).real,
        "view_as_real": torch.view_as_real(torch.view_as_complex(base)),
        "dtype": base.view(torch.int32),
        "diagonal": base.diagonal(),
        "narrow": base.narrow(0, 0, 1),
        "detach": base.detach(),
    }
    for name, view in views.items():
        base.zero_()
        view.reshape(-1)[:1].copy_(torch.ones(1)) if name == "as_strided" else view.fill_(1)
        assert base[0, 0].item() != 0, name
        assert view.data_ptr() == base.data_ptr(), name


def test_a_write_through_a_view_is_seen_by_autograd() -> None:
    base = torch.ones(3, device="neuron", requires_grad=True)
    copy = base * 1
    copy.unfold(0, 1, 1)[0].mul_(5)
    copy.sum().backward()
    assert base.grad is not None
    assert base.grad.tolist() == [5, 1, 1]


def test_a_saved_tensor_changed_in_place_is_an_error() -> None:
    weight = torch.ones(3, device="neuron", requires_grad=True)
    saved = weight.exp()
    with torch.no_grad():
        saved.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()


def test_out_arguments_are_resized_in_place() -> None:
    out = torch.empty(0, device="neuron")
    address = id(out)
    assert torch.add(torch.ones(3, device="neuron"), 1, out=out) is out
    assert (id(out), out.tolist(), out.device.type) == (address, [2, 2, 2], "neuron")
    strided = torch.empty(3, 2, device="neuron").t()
    torch.add(torch.ones(2, 3, device="neuron"), 1, out=strided)
    assert strided.stride() == (1, 2)
    assert strided.cpu().equal(torch.full((2, 3), 2.0))


def test_an_out_argument_on_another_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.add(torch.ones(3, device="neuron"), 1, out=torch.empty(3))


def test_indexing_takes_host_and_device_indices() -> None:
    values = torch.arange(12.0, device="neuron").view(3, 4)
    assert values[torch.tensor([2, 0])].tolist() == values[torch.tensor([2, 0], device="neuron")].tolist()
    values[torch.tensor([0]), torch.tensor([1], device="neuron")] = 50
    assert values[0, 1].item() == 50
    assert values[values > 9].tolist() == [50, 10, 11]


def test_like_and_factory_ops_obey_the_device_argument() -> None:
    base = torch.ones(2, 3, device="neuron:1")
    assert torch.zeros_like(base).device == base.device
    assert torch.zeros_like(base, device="cpu").device.type == "cpu"
    assert torch.full_like(torch.ones(2), 3, device="neuron").tolist() == [3, 3]
    assert torch.arange(3, device="neuron").tolist() == [0, 1, 2]
    assert torch.eye(2, device="neuron:1").device == base.device
    assert torch.tril_indices(3, 3, device="neuron").cpu().equal(torch.tril_indices(3, 3))
    assert base.new_full((2,), 7).tolist() == [7, 7]
    assert torch.tensor([[1, 2]], device="neuron").shape == (1, 2)


def test_a_constant_of_a_graph_is_copied_on_the_device() -> None:
    """What Dynamo makes of a tensor that a traced function writes down."""
    x = torch.ones(3, device="neuron")
    torchneuron_backend.reset_op_counters()
    y = torch.ops.aten.lift_fresh_copy(x)
    routes = {row["op"]: row["route"] for row in torchneuron_backend.op_counters()}
    assert "fallback" not in routes.values()
    assert y.data_ptr() != x.data_ptr()
    assert torch.equal(y.cpu(), torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32])
def test_an_unsafe_view_shares_memory_in_every_dtype(dtype: torch.dtype) -> None:
    """torch writes results through one, as in ``kron(out=)``; a fallback would write into a copy."""
    x = torch.zeros(6, dtype=dtype, device="neuron")
    torch.ops.aten._unsafe_view(x, (2, 3)).fill_(1)
    assert x.tolist() == [1] * 6
    one, two = torch.arange(6).view(2, 3).to(dtype), torch.arange(4).view(2, 2).to(dtype)
    out = torch.zeros(4, 6, dtype=dtype, device="neuron")
    torch.kron(one.to("neuron"), two.to("neuron"), out=out)
    assert torch.equal(out.cpu(), torch.kron(one, two))
