"""64-bit numbers: exact unless told to compute in 32 bits, as the chip does."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.torchneuron_backend.conftest import run_python
from torchneuron_backend import _C, numerics

BIG = 2**31

# Native operators of 64-bit floats and of lists, none of which the lowering table has.
LIBRARY = torch.library.Library("neuron_numerics", "DEF")
LIBRARY.define("thirds(Tensor x) -> Tensor")
LIBRARY.define("both(Tensor[] xs) -> Tensor[]")
LIBRARY.impl("thirds", lambda x: x / 3, "CPU")
LIBRARY.impl("both", lambda xs: [x + 1 for x in xs], "CPU")
FLOATS = 1 << _C.dtype_number(torch.float64) | 1 << _C.dtype_number(torch.complex128)
INTEGERS = 1 << _C.dtype_number(torch.int64)
_C.register_lowerings([("neuron_numerics::thirds", FLOATS), ("neuron_numerics::both", INTEGERS)])


@pytest.fixture(autouse=True)
def exact_again() -> Iterator[None]:
    yield
    numerics.set_64_bit_policy("exact")


def on_device(values: list[Any], dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device="neuron")


def test_exact_is_the_default() -> None:
    assert numerics.get_64_bit_policy() == "exact"
    assert (on_device([BIG]) + 1).tolist() == [BIG + 1]


def test_integers_wrap_around_at_32_bits() -> None:
    x = on_device([BIG, BIG - 1, -5])
    numerics.set_64_bit_policy("32")
    y = x + 1
    assert y.dtype == torch.int64
    assert y.tolist() == [1 - BIG, -BIG, -4]
    assert x.tolist() == [BIG, BIG - 1, -5]  # what was only read is as it was
    assert (on_device([65536]) * 65536).tolist() == [0]


def test_floats_keep_24_bits() -> None:
    thirds = torch.ops.neuron_numerics.thirds
    assert thirds(on_device([1], torch.float64)).item() == 1 / 3
    numerics.set_64_bit_policy("32")
    third = thirds(on_device([1 + 2**-30], torch.float64))
    assert third.dtype == torch.float64
    assert third.item() == (torch.tensor(1.0) / 3).item() != 1 / 3
    assert thirds(on_device([3j], torch.complex128)).item() == 1j
    assert thirds(on_device([1j], torch.complex128)).item() == torch.tensor(1j / 3).item() != 1j / 3


def test_what_is_written_in_place_is_rounded_whole_and_stays_where_it_is() -> None:
    numerics.set_64_bit_policy("32")
    base = on_device([BIG, 1, 2])
    address, view = base.data_ptr(), base[1:]
    base.add_(base)
    assert (base.tolist(), view.tolist(), base.data_ptr()) == ([0, 2, 4], [2, 4], address)
    torch.mul(base, BIG // 2, out=base)
    assert (base.tolist(), view.tolist(), base.data_ptr()) == ([0, -BIG, 0], [-BIG, 0], address)
    out = torch.empty(0, dtype=torch.int64, device="neuron")
    assert torch.add(base, 1, out=out).tolist() == [1, 1 - BIG, 1]


def test_lists_are_rounded_too() -> None:
    halves = on_device([5, 2**32 + 7])
    numerics.set_64_bit_policy("32")
    assert [x.tolist() for x in torch.ops.neuron_numerics.both([halves, halves])] == [[6, 8], [6, 8]]


def test_copies_and_the_fallback_stay_exact() -> None:
    numerics.set_64_bit_policy("32")
    assert torch.empty_like(x := on_device([BIG + 1])).copy_(x).cpu().tolist() == [BIG + 1]
    _, doubled = torch.ops.neuron_tests.two(on_device([BIG]))
    assert doubled[1].tolist() == [2 * BIG]


def test_indices_and_other_dtypes_are_untouched() -> None:
    numerics.set_64_bit_policy("32")
    table = torch.arange(6.0, device="neuron").view(3, 2)
    assert table[on_device([2, 0])].tolist() == [[4, 5], [0, 1]]
    assert table.argmax(0).tolist() == [2, 2]
    assert (on_device([7], torch.int32) + on_device([BIG])).tolist() == [7 - BIG]


def test_a_loss_trains_the_same_where_no_number_has_64_bits() -> None:
    def gradient() -> torch.Tensor:
        torch.manual_seed(0)
        layer = torch.nn.Linear(4, 3, device="neuron")
        logits = layer(torch.ones(2, 4, device="neuron"))
        torch.nn.functional.cross_entropy(logits, on_device([0, 2])).backward()
        assert layer.weight.grad is not None
        return layer.weight.grad

    exact = gradient()
    numerics.set_64_bit_policy("32")
    assert gradient().equal(exact)


def test_the_policy_is_a_variable() -> None:
    code = "import torch; print((torch.tensor([2**31], device='neuron') + 1).item())"
    assert run_python(code, TORCHNEURON_64BIT="32").stdout.split() == [str(1 - BIG)]
    assert run_python(code, TORCHNEURON_64BIT="exact").stdout.split() == [str(BIG + 1)]
    assert "TORCHNEURON_64BIT: '16' is not a policy" in run_python(code, TORCHNEURON_64BIT="16").stderr


def test_another_name_is_no_policy() -> None:
    with pytest.raises(ValueError, match="'half' is not a policy for 64-bit numbers"):
        numerics.set_64_bit_policy("half")  # type: ignore[arg-type]
