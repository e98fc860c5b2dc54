"""Where one rounding more, a quotient off by its last place, or a missing NaN would make another number."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from torchneuron_backend.compiler.executable import Executable
from torchneuron_backend.compiler.lowering import decompose, to_stablehlo
from torchneuron_backend.compiler.single import trace

aten = torch.ops.aten


def compiled(overload: torch._ops.OpOverload, *args: object, **kwargs: object) -> torch.Tensor:
    graph, inputs = trace(overload, args, kwargs, overload(*args, **kwargs))
    (result,) = Executable(to_stablehlo(decompose(graph))).run(inputs)
    return result


def multiples(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Dividends that are whole multiples of the divisors along the diagonal, broadcast against each other."""
    divisors = torch.linspace(0.3, 9.7, 60).to(dtype)
    factors = torch.arange(60) % 5 - 2
    return (divisors * factors).to(dtype)[:, None], divisors * torch.tensor([1, -1]).repeat(30)


QUOTIENTS: dict[str, Callable[..., torch.Tensor]] = {
    "fmod": aten.fmod.Tensor,
    "remainder": aten.remainder.Tensor,
    "floor_divide": aten.floor_divide.default,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("overload", QUOTIENTS.values(), ids=QUOTIENTS)
def test_whole_multiples_leave_nothing(overload: torch._ops.OpOverload, dtype: torch.dtype) -> None:
    x, y = multiples(dtype)
    assert torch.equal(compiled(overload, x, y), overload(x, y))


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_quotients_of_zero_and_by_zero_and_infinity(mode: str) -> None:
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.5, float("inf"), float("-inf"), float("nan")])
    x, y = special[:, None], special[None]
    expected = torch.div(x, y, rounding_mode=mode)
    actual = compiled(aten.div.Tensor_mode, x, y, rounding_mode=mode)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(
        compiled(aten.fmod.Tensor, x, y), torch.fmod(x, y), rtol=0, atol=0, equal_nan=True
    )


def test_fmod_by_a_number() -> None:
    x = torch.tensor([5.125, -7.0, 2.5])
    assert compiled(aten.fmod.Scalar, x, 5.125).tolist() == [0.0, -1.875, 2.5]
    assert compiled(aten.fmod.Scalar, x.int(), 3).tolist() == [2, -1, 2]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_whole_numbers_between_two(dtype: torch.dtype) -> None:
    for start, end, steps in ((-3, 50, 50), (0, 50, 50), (7, -9, 13), (4, 4, 3), (2, 9, 1)):
        arguments = (start, end, steps)
        expected = torch.linspace(*arguments, dtype=dtype)
        assert torch.equal(compiled(aten.linspace.default, *arguments, dtype=dtype), expected)


def test_two_byte_floats_are_rounded_once() -> None:
    near = torch.tensor([[9.0, 0.0, 1.0], [4.0, -4.0, 0.0]]).bfloat16()
    exact = near.double().log_softmax(0).bfloat16()
    assert torch.equal(compiled(aten._log_softmax.default, near, 0, False), exact)
    assert torch.equal(aten._log_softmax(near, 0, False), exact)
    counted = compiled(aten.arange.start_step, 0.0, 2.0, 0.05, dtype=torch.bfloat16)
    one_rounding = {"rtol": 2.0**-7, "atol": 0.0}
    torch.testing.assert_close(counted, torch.arange(0, 2, 0.05, dtype=torch.bfloat16), **one_rounding)


def test_what_is_not_a_number_is_neither_finite_nor_itself() -> None:
    x = torch.tensor([1.0, float("inf"), float("-inf"), float("nan")])
    assert compiled(aten.isfinite.default, x).tolist() == [True, False, False, False]
    graph = torch.fx.Graph()
    argument = graph.placeholder("x")
    argument.meta["val"] = x
    same = graph.call_function(aten.eq.Tensor, (argument, argument))
    same.meta["val"] = x == x
    graph.output((same,))
    (result,) = Executable(to_stablehlo(decompose(torch.fx.GraphModule({}, graph)))).run([x])
    assert result.tolist() == [True, True, True, False]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_variance_without_a_degree_of_freedom() -> None:
    for x, dim in (
        (torch.tensor([3.0]), None),
        (torch.tensor([[1.0], [2.0]]), [1]),
        (torch.arange(3.0), [0]),
    ):
        for overload in (aten.var.correction, aten.std.correction):
            for correction in (1, 4):
                expected = overload(x, dim, correction=correction)
                actual = compiled(overload, x, dim, correction=correction)
                torch.testing.assert_close(actual, expected, equal_nan=True)
