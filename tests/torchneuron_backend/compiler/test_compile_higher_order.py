"""Operators that hold graphs: written out where that is possible, run eagerly between pieces or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops import associative_scan, map, scan, while_loop

import torchneuron_backend.compiler as compiler


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()


def chosen(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x * 2,))


def repeated(x: torch.Tensor) -> Any:
    start = torch.zeros((), dtype=torch.int64, device=x.device)
    return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (start, x + 1))[1]


def carried(x: torch.Tensor) -> Any:
    return scan(lambda total, v: (total + v, total * v), torch.zeros(2, device=x.device), x + 1)[1]


def mapped(x: torch.Tensor) -> Any:
    return map(lambda row: row.sin() + 1, x * 2)


def combined(x: torch.Tensor) -> Any:
    return associative_scan(lambda a, b: a * b, x + 1, dim=0, combine_mode="generic")


@pytest.mark.parametrize(
    ("function", "eager"),
    [
        (chosen, ["cond"]),
        (repeated, ["while_loop"]),
        (carried, ["scan"]),
        (mapped, ["map_impl"]),
        (combined, []),
    ],
)
def test_control_flow_computes_what_the_cpu_does_and_says_how(
    function: Callable[[torch.Tensor], torch.Tensor], eager: list[str]
) -> None:
    x = torch.arange(6.0).reshape(3, 2)
    result = torch.compile(function, backend="neuron", fullgraph=True)(x.to("neuron"))
    torch.testing.assert_close(result.cpu(), function(x), rtol=1e-5, atol=1e-6)
    metrics = compiler.get_dynamo_metrics()
    assert [name for name, _ in metrics["ops_eager"]] == eager
    assert metrics["partitions"] >= 1


def test_a_nested_region_is_part_of_the_program_forward_and_backward() -> None:
    @torch.compiler.nested_compile_region
    def layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (x @ weight).relu()

    x = torch.ones(2, 2, device="neuron")
    weight = torch.eye(2, device="neuron").requires_grad_()
    torch.compile(lambda a, w: layer(layer(a, w), w).sum(), backend="neuron", fullgraph=True)(
        x, weight
    ).backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert [graph["ops_eager"] for graph in compiler.get_dynamo_metrics()["graphs"]] == [[], []]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * gradient * x.cos()


def test_an_autograd_function_keeps_its_own_backward() -> None:
    x = torch.ones(3, device="neuron", requires_grad=True)
    torch.compile(lambda v: Doubled.apply(v).sum(), backend="neuron", fullgraph=True)(x).backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), 2 * torch.ones(3).cos())


def test_control_flow_works_under_autocast() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("neuron", dtype=torch.bfloat16):
            return torch.cond(x.sum() > 0, lambda v: v @ v, lambda v: v @ v + 1, (x * 2,))

    result = torch.compile(function, backend="neuron", fullgraph=True)(torch.eye(2, device="neuron"))
    assert (result.dtype, result.tolist()) == (torch.bfloat16, [[4.0, 0.0], [0.0, 4.0]])


def test_a_triton_kernel_is_refused_by_name() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2, device="meta")

    def triton_kernel_wrapper_functional(value: torch.Tensor) -> torch.Tensor:
        return value

    graph.output((graph.call_function(triton_kernel_wrapper_functional, (x,)),))
    with pytest.raises(compiler.UnsupportedOperatorError, match="a Triton kernel is code for a GPU"):
        compiler.compile_graph(torch.fx.GraphModule({}, graph), "inference")
