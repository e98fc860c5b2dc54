"""Samples: the same each time, and copied as they lie in memory."""

from __future__ import annotations

import pytest
import torch

from suites.opinfo.entries import OP_DB, entries
from suites.opinfo.samples import SAMPLES, Call, chosen_samples, map_tensors, place, spread
from suites.opinfo.traits import load_traits

TRAITS = load_traits()


def placed(*args, op="add", to="cpu", **kwargs):
    return place(Call(args, kwargs), to, op, TRAITS)


def test_samples_are_few_and_spread():
    chosen = chosen_samples(entries(OP_DB)["nn.functional.max_pool2d"], torch.float32, 0)
    assert len(chosen) == SAMPLES
    # op_db varies kernel, stride, padding and dilation slowly: its first twenty differ in little.
    assert len({str(call.args[1:]) + str(call.kwargs) for call in chosen}) > SAMPLES / 2


def test_samples_are_the_same_for_the_same_seed_only():
    mul = entries(OP_DB)["mul"]
    one, two, other = (chosen_samples(mul, torch.float32, seed) for seed in (1, 1, 2))
    same = [torch.equal(a.args[0], b.args[0]) for a, b in zip(one, two, strict=True)]
    changed = [torch.equal(a.args[0], b.args[0]) for a, b in zip(one, other, strict=True)]
    assert all(same)
    assert not any(changed[:3])


def test_a_copy_shares_nothing_with_the_original():
    tensor = torch.zeros(3)
    copy = placed(tensor).args[0]
    copy.add_(1)
    assert tensor.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.arange(20.0)[5:15],
        torch.ones(1).expand(4),
        torch.empty(0, 3),
        torch.tensor(2, dtype=torch.int8),
        torch.arange(4.0, dtype=torch.bfloat16)[::2],
        torch.complex(torch.ones(2), torch.ones(2)).conj(),
        torch.complex(torch.ones(2), torch.ones(2)).conj().imag,
        torch.eye(3).to_sparse(),
    ],
    ids=["transposed", "offset", "expanded", "empty", "scalar", "stepped", "conjugated", "negated", "sparse"],
)
def test_a_copy_lies_in_memory_as_the_original_does(tensor):
    copy = placed(tensor).args[0]
    assert (copy.dtype, copy.layout, copy.shape) == (tensor.dtype, tensor.layout, tensor.shape)
    if tensor.layout is torch.strided:
        assert (copy.stride(), copy.storage_offset()) == (tensor.stride(), tensor.storage_offset())
        assert copy.untyped_storage().nbytes() == tensor.untyped_storage().nbytes()
        assert (copy.is_conj(), copy.is_neg()) == (tensor.is_conj(), tensor.is_neg())
        assert torch.equal(copy, tensor)
    else:
        assert torch.equal(copy.to_dense(), tensor.to_dense())


def test_tensors_that_share_memory_share_it_again():
    base = torch.zeros(4)
    call = placed([base, base[1:]], other=base[2:])
    call.args[0][0].fill_(7)
    assert call.args[0][1].tolist() == [7, 7, 7]
    assert call.kwargs["other"].tolist() == [7, 7]
    assert base.tolist() == [0, 0, 0, 0]


def test_a_device_among_the_arguments_becomes_the_one_under_test():
    call = placed(torch.ones(2), torch.device("cpu"), [None, slice(0, 1)], to="meta", device="cpu")
    assert call.args[0].device.type == "meta"
    assert call.args[1] == torch.device("meta")
    assert call.args[2] == [None, slice(0, 1)]
    assert call.kwargs == {"device": "meta"}


def test_a_factory_that_names_no_device_is_given_it_and_others_are_not():
    assert placed(3, op="arange", to="meta").kwargs == {"device": "meta"}
    assert placed(3, op="arange", to="meta", device="cpu").kwargs == {"device": "meta"}
    assert placed(torch.ones(1), op="zeros_like", to="meta").kwargs == {}


def test_an_argument_that_belongs_on_the_cpu_stays_there():
    call = placed(torch.ones(3), torch.tensor([1]), op="tensor_split", to="meta")
    assert [tensor.device.type for tensor in call.tensors()] == ["meta", "cpu"]


def test_a_size_stays_a_size():
    assert type(placed(torch.Size([2])).args[0]) is torch.Size


@pytest.mark.parametrize(("most", "kept"), [(1, [0]), (2, [0, 9]), (4, [0, 3, 6, 9]), (10, list(range(10)))])
def test_fewer_samples_are_spread_evenly(most, kept):
    assert spread(list(range(10)), most) == kept


def test_a_copy_requires_a_gradient_where_the_original_does():
    leaf = torch.ones(2, requires_grad=True)
    call = placed(leaf, leaf * 2, torch.ones(2))
    assert [tensor.requires_grad for tensor in call.tensors()] == [True, True, False]
    assert all(tensor.is_leaf for tensor in call.tensors())


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [(torch.bfloat16, torch.float64), (torch.complex64, torch.complex128), (torch.int64, torch.int64)],
)
def test_a_widened_copy_has_the_same_values_and_lies_in_memory_as_the_original_does(dtype, wide):
    base = torch.arange(24).to(dtype)
    call = place(Call((base[2:14].view(3, 4).t(), base), {}), "cpu", "add", TRAITS, widen=True)
    view, whole = call.args
    assert (view.dtype, view.stride(), view.storage_offset()) == (wide, (1, 4), 2)
    assert torch.equal(view, base[2:14].view(3, 4).t().to(wide))
    whole.zero_()
    assert not view.any()


def test_every_tensor_of_a_call_is_mapped():
    call = Call((torch.ones(1), [torch.ones(1), 2]), {"a": {"b": (torch.ones(1),)}})
    assert [tensor.item() for tensor in map_tensors(lambda tensor: tensor + 1, call).tensors()] == [2, 2, 2]
