"""A mask times something infinite: NaN, where a compiler's shortcut would say 0."""

from __future__ import annotations

import math

import pytest
import torch

from torchneuron_backend.compiler.lowering import decompose, to_stablehlo

NAN, INF = math.nan, math.inf
MASK = torch.tensor([False, True])


def compiled(function, *inputs):
    torch._dynamo.reset()
    moved = (each.to("neuron") for each in inputs)
    return torch.compile(function, backend="neuron")(*moved).cpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        lambda mask, x: mask * x,
        lambda mask, x: mask.to(x.dtype) * x,
        lambda mask, x: (mask == 1).to(x.dtype) * x,
        lambda mask, x: (mask.to(x.dtype) * INF) + x * 0,
        lambda mask, x: (mask / 0.0).to(x.dtype),
        lambda mask, x: mask[0].to(x.dtype) * x[0],
    ],
)
def test_nan_is_not_lost(function, dtype):
    x = torch.tensor([NAN, INF], dtype=dtype)
    expected = function(MASK, x)
    assert expected.isnan().any()
    torch.testing.assert_close(compiled(function, MASK, x), expected, equal_nan=True, rtol=0, atol=0)


def test_gradients_through_a_mask():
    x = torch.tensor([INF, 2.0])

    def gradient(device):
        mask, leaf = MASK.to(device), x.to(device).requires_grad_()
        function = torch.compile(lambda a, b: a * b * b, backend="neuron") if device == "neuron" else None
        torch._dynamo.reset()
        value = function(mask, leaf) if function else mask * leaf * leaf
        value.sum().backward()
        return leaf.grad.cpu()

    torch.testing.assert_close(gradient("neuron"), gradient("cpu"), equal_nan=True, rtol=0, atol=0)


def test_only_truth_values_that_become_floats_take_the_way_round():
    def text(function, *inputs):
        from torch.fx.experimental.proxy_tensor import make_fx

        return to_stablehlo(decompose(make_fx(function, tracing_mode="fake")(*inputs)))

    assert text(lambda mask: mask.float(), MASK).count("stablehlo.convert") == 2
    assert text(lambda mask: mask.int(), MASK).count("stablehlo.convert") == 1
    assert text(lambda x: x.float(), MASK.int()).count("stablehlo.convert") == 1
