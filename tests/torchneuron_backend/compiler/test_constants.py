"""What is computed from constants alone is what the CPU computes, whatever lies in the compiler's memory.

Torch-MLIR's folder reads memory that nobody wrote, so the programs are lowered in a process whose allocator
fills what it hands out and takes back (glibc's MALLOC_PERTURB_).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from torchneuron_backend.compiler import lowering
from torchneuron_backend.compiler.constants import fold_constants
from torchneuron_backend.compiler.executable import Executable

OPERATORS = ("lt", "le", "gt", "ge", "eq", "ne", "add", "sub", "rsub", "mul", "div", "floor_divide", "fmod")
FLOATS = (torch.float32, torch.bfloat16)
NUMBERS = (0, 1, 2, -1, 0.5)


def expressions() -> Iterator[Callable[[], torch.Tensor]]:
    """Operators on a constant tensor and a number; tensors of one value and of two."""
    for name, dtype, number in product(OPERATORS, (*FLOATS, torch.int64, torch.bool), NUMBERS):
        operator = getattr(torch, name)
        for value in (2, 0) if dtype is torch.bool else (2, 0, -3):

            def filled(f=operator, d=dtype, v=value, n=number):  # type: ignore[no-untyped-def]
                return f(torch.full((2,), v, dtype=d), n)

            yield filled
        yield lambda f=operator, d=dtype, n=number: f(torch.tensor([1, 2]).to(d), n)  # type: ignore[misc]


def allowed() -> list[tuple[Callable[[], torch.Tensor], torch.Tensor]]:
    """Those that PyTorch has, and that nothing else refuses, with what they give."""
    found = []
    for expression in expressions():
        try:
            result = expression()
        except (RuntimeError, TypeError):  # PyTorch itself refuses a bool minus something
            continue
        found.append((expression, result))
    return found


def check() -> None:
    """Lower, compile, run and compare all of them; raises AssertionError."""
    pairs = allowed()
    assert len(pairs) > 700
    traced = make_fx(lambda x: [expression() for expression, _ in pairs] + [x], tracing_mode="fake")(
        torch.ones(1)
    )
    lowering.preload()
    results = Executable(lowering.lower_here(traced)).run([torch.ones(1)])
    for (_, wanted), found in zip(pairs, results[:-1], strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


def test_constants_are_what_the_cpu_computes() -> None:
    environment = {**os.environ, "MALLOC_PERTURB_": "165"}
    code = "from tests.torchneuron_backend.compiler.test_constants import check; check()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def folded(function: Callable[[torch.Tensor], torch.Tensor]) -> GraphModule:
    module = make_fx(function, tracing_mode="fake")(torch.ones(2))
    fold_constants(module)
    module.graph.lint()
    module.recompile()
    return module


def targets(module: GraphModule) -> set[str]:
    return {str(node.target) for node in module.graph.nodes if node.op == "call_function"}


def test_only_the_last_of_a_chain_is_left() -> None:
    module = folded(lambda x: x * (torch.full((2,), 3.0) - 1 < 0))
    module.graph.eliminate_dead_code()
    assert targets(module) == {"aten.full.default", "aten.mul.Tensor"}
    assert module(torch.ones(2)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), -0.0, torch.finfo(torch.float32).max])
def test_special_values_are_kept(value: float) -> None:
    module = folded(lambda x: torch.where(x > 0, torch.full((2,), value).clone(), x))
    result = module(torch.ones(2))
    expected = torch.full((2,), value)
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(result.signbit(), expected.signbit())
    assert "aten.clone.default" not in targets(module)  # it was folded, not left as it was


def test_zeros_of_both_signs_are_two_values() -> None:
    module = folded(lambda x: torch.copysign(torch.full((2,), 0.0), torch.tensor([1.0, -1.0])) + x * 0)
    assert "aten.copysign.Tensor" not in targets(module)
    assert (1 / module(torch.full((2,), -1.0))).tolist() == [float("inf"), float("-inf")]


def test_random_numbers_and_many_values_are_left_alone() -> None:
    module = folded(lambda x: x.sum() + torch.full((64,), 1.0).cumsum(0) + torch.rand(64))
    assert {"aten.cumsum.default", "aten.rand.default"} <= targets(module)


def test_what_raises_is_left_to_the_program() -> None:
    module = folded(lambda x: x + torch.full((2,), 1.0)[torch.full((2,), 5)])
    assert "aten.index.Tensor" in targets(module)


def test_a_mode_of_fake_tensors_outside_does_not_matter() -> None:
    module = make_fx(lambda x: x * (torch.full((2,), 3.0) - 1), tracing_mode="fake")(torch.ones(2))
    with FakeTensorMode():
        fold_constants(module)
    module.recompile()
    assert module(torch.ones(2)).tolist() == [2.0, 2.0]
