"""Random operators as programs of the generator's state: the CPU's numbers, and its state after them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch

from torchneuron_backend.compiler import generator_state, single
from torchneuron_backend.compiler.executable import Executable
from torchneuron_backend.compiler.lowering import decompose
from torchneuron_backend.compiler.mersenne import WORDS, to_stablehlo_with_state
from torchneuron_backend.compiler.rewrites.random import RANDOM, numbers_drawn

aten = torch.ops.aten
BETWEEN = getattr(aten.random, "from")


@functools.cache
def raw_program(count: int) -> Executable:
    """(words, place) -> the next ``count`` numbers, each plus one, and the state after them."""
    graph = torch.fx.Graph()
    numbers = graph.placeholder("numbers")
    numbers.meta["val"] = torch.empty(count, dtype=torch.int64)
    result = graph.call_function(aten.add.Scalar, (numbers, 1))
    result.meta["val"] = numbers.meta["val"]
    graph.output((result,))
    return Executable(to_stablehlo_with_state(decompose(torch.fx.GraphModule({}, graph))))


@pytest.mark.parametrize("count", [1, 2, 226, 227, 228, 396, 397, 398, 623, 624, 625, 1248, 1249, 40_000])
def test_numbers_and_state_are_those_of_the_mersenne_twister_wherever_it_is(count: int) -> None:
    draw = np.random.default_rng(count)
    places = [0, 1, 2, 227, 396, 397, 623, 624, *draw.integers(0, WORDS, 12)]
    for place, seed in zip(places, draw.integers(0, 1 << 32, len(places)), strict=True):
        twister = np.random.MT19937()
        twister._legacy_seeding(int(seed))
        twister.random_raw(WORDS)  # words that have been through a twist
        state = twister.state
        state["state"]["pos"] = int(place)
        twister.state = state
        words = torch.from_numpy(state["state"]["key"].astype(np.int64))
        numbers, after, end = raw_program(count).run([words, torch.tensor(int(place))])
        expected = np.atleast_1d(twister.random_raw(count)).astype(np.int64)
        assert torch.equal(numbers - 1, torch.from_numpy(expected))
        assert torch.equal(after, torch.from_numpy(twister.state["state"]["key"].astype(np.int64)))
        assert int(end) == twister.state["state"]["pos"]


def test_the_text_of_a_program_does_not_grow_with_what_it_draws() -> None:
    lengths = []
    for count in (1000, 1_000_000):
        x = torch.zeros(count)
        graph, _ = single.trace(aten.bernoulli.p, (x, 0.5), {}, x)
        lengths.append(len(single.to_stablehlo(decompose(graph), draws=True).splitlines()))
    assert lengths[0] == lengths[1]


@functools.cache
def program(overload: Any, shape: tuple[int, ...], dtype: torch.dtype, args: tuple[Any, ...]) -> Executable:
    x = torch.zeros(shape, dtype=dtype)
    graph, _ = single.trace(overload, (x, *args), {}, overload(x, *args))
    return Executable(single.to_stablehlo(decompose(graph), draws=True))


def agrees(overload: Any, x: torch.Tensor, *args: Any, drawn: int = 0, rtol: float = 1e-6) -> None:
    """A program's results and the generator's state after it are the CPU's, to the byte the latter."""
    torch.manual_seed(1)
    torch.empty(drawn, dtype=torch.int32).random_(9)
    generator = torch.Generator()
    generator.set_state(torch.get_rng_state())
    expected = overload(x, *args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    state = torch.get_rng_state()
    inputs = [*generator_state.read(generator), x]
    *results, words, place = program(overload, tuple(x.shape), x.dtype, args).run(inputs)
    generator_state.write(generator, words, place)
    assert torch.equal(generator.get_state(), state)
    for ours, theirs in zip(results, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("count", [1, 312, 623, 16_385, 100_000])
def test_an_operator_goes_on_where_the_generator_was(count: int) -> None:
    for drawn in (0, 1, 623, 624, 625, 2000):
        agrees(aten.uniform.default, torch.zeros(count), drawn=drawn)
        agrees(aten.native_dropout.default, torch.ones(count), 0.1, True, drawn=drawn)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_distributions(dtype: torch.dtype) -> None:
    shape = (2, 90, 100)
    x, rtol = torch.zeros(shape, dtype=dtype), 1e-5 if dtype == torch.float32 else 1e-2
    agrees(aten.uniform.default, x, -1.0, 2.0, rtol=rtol)
    agrees(aten.bernoulli.p, x, 0.3)
    agrees(aten.bernoulli.default, torch.rand(shape).to(dtype))
    agrees(aten.exponential.default, x, 0.7, rtol=rtol)
    agrees(aten.cauchy.default, x, 0.5, 2.0, rtol=rtol)
    agrees(aten.geometric.default, x, 0.3)
    agrees(aten.random.to, x, 9)
    agrees(aten.native_dropout.default, torch.ones(shape, dtype=dtype), 0.1, True, rtol=rtol)


def test_whole_numbers() -> None:
    x = torch.zeros(20_000, dtype=torch.int64)
    agrees(BETWEEN, x, -3, 9)
    agrees(aten.random.to, x, (1 << 28) - 1)


def test_dropout_of_all_and_of_nothing_draws_too_and_what_is_not_finite_shows() -> None:
    x = torch.tensor([1.0, -1.0, 0.0, float("inf"), float("-inf"), float("nan")] * 3)
    for p in (0.0, 0.5, 1.0):
        agrees(aten.native_dropout.default, x, p, True)


def test_what_no_rewrite_covers_draws_no_numbers() -> None:
    def count(overload: Any, *args: Any) -> int:
        return numbers_drawn(overload, args, {"generator": None})

    assert count(aten.uniform.default, torch.zeros(3, 4)) == 12
    assert count(aten.uniform.default, torch.zeros(3, 4).T) == 0
    assert count(aten.uniform.default, torch.zeros(3, dtype=torch.float64)) == 0
    assert count(aten.native_dropout.default, torch.zeros(3), 0.1, True) == 6
    assert count(aten.native_dropout.default, torch.zeros(3), 0.1, False) == 0
    assert count(BETWEEN, torch.zeros(3), 0, (1 << 28) - 1) == 3
    assert count(BETWEEN, torch.zeros(3), 0, 1 << 28) == 0
    assert count(aten.normal_functional.default, torch.zeros(3)) == 0
    assert aten.normal_functional.default not in RANDOM
