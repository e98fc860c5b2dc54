"""Random operators as functions of the generator's state: the CPU's numbers, and its state after them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchneuron_backend.compiler.rewrites.random import RANDOM
from torchneuron_backend.probe import generator

aten = torch.ops.aten
BETWEEN = getattr(aten.random, "from")


def agrees(overload: Any, *args: Any, drawn: int = 0, rtol: float = 1e-6) -> None:
    torch.manual_seed(1)
    torch.rand(drawn)
    before = generator.state()
    theirs = overload(*args)
    theirs = [*(theirs if isinstance(theirs, tuple) else [theirs]), *generator.state()]
    for mine, expected in zip(RANDOM[overload](*before, *args), theirs, strict=True):
        torch.testing.assert_close(mine, expected, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("drawn", [0, 1, 623, 624, 625, 2000])
@pytest.mark.parametrize("count", [1, 623, 624, 1300])
def test_the_generator_goes_on_where_it_was(drawn: int, count: int) -> None:
    agrees(aten.uniform.default, torch.zeros(count), drawn=drawn)
    agrees(aten.bernoulli.p, torch.zeros(count), 0.3, drawn=drawn)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_distributions(dtype: torch.dtype) -> None:
    x, rtol = torch.zeros(30, 40, dtype=dtype), 1e-6 if dtype == torch.float32 else 1e-2
    agrees(aten.uniform.default, x, -1.0, 2.0, rtol=rtol)
    agrees(aten.bernoulli.default, torch.rand(30, 40).to(dtype))
    agrees(aten.exponential.default, x, 0.7, rtol=rtol)
    agrees(aten.cauchy.default, x, 0.5, 2.0, rtol=rtol)
    agrees(aten.geometric.default, x, 0.3)
    agrees(aten.random.to, x, 9)
    agrees(aten.native_dropout.default, torch.ones(30, 40, dtype=dtype), 0.1, True, rtol=rtol)


def test_whole_numbers() -> None:
    x = torch.zeros(30, dtype=torch.int64)
    agrees(BETWEEN, x, -3, 9)
    agrees(aten.random.to, x, (1 << 28) - 1)


def test_what_the_steps_do_not_cover_is_left_alone() -> None:
    state = generator.state()
    assert RANDOM[aten.uniform.default](*state, torch.zeros(20_000)) is NotImplemented
    assert RANDOM[aten.uniform.default](*state, torch.zeros(3, 4).T) is NotImplemented
    assert RANDOM[BETWEEN](*state, torch.zeros(3), 0, 1 << 28) is NotImplemented
    assert RANDOM[aten.native_dropout.default](*state, torch.zeros(3), 0.1, False) is NotImplemented
