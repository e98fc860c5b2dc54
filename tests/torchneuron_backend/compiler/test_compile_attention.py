"""FlexAttention and grouped products of experts, eagerly and compiled, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import torchneuron_backend.compiler as compiler

LENGTH = 8
# Sixteen float32 products and a softmax, summed in another order: a few units in the last place.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
# bfloat16 keeps 8 bits; the reference is computed from the unrounded inputs.
COARSE = {"rtol": 2**-5, "atol": 2**-5}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()


def maybe_compiled(function: Callable[..., torch.Tensor], way: str) -> Callable[..., torch.Tensor]:
    return torch.compile(function, backend="neuron", fullgraph=True) if way == "compiled" else function


def causal_biased(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """What the tests ask of FlexAttention, from the definition of attention."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + bias
    hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ value


def flex(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, LENGTH, LENGTH, device="neuron")
    return flex_attention(query, key, value, lambda score, b, h, q, k: score + bias[k], block_mask=mask)


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    heads = [torch.randn(1, 2, LENGTH, 8, generator=generator) for _ in range(3)]
    return [*heads, torch.randn(LENGTH, generator=generator)]


def gradients(function: Callable[..., torch.Tensor], arguments: list[torch.Tensor]) -> list[torch.Tensor]:
    """The result and the gradient of each argument, on the CPU in float32."""
    leaves = [tensor.detach().requires_grad_() for tensor in arguments]
    result = function(*leaves)
    weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape).to(result.device)
    (result.float() * weights).sum().backward()
    return [tensor.float().cpu() for tensor in (result.detach(), *(leaf.grad for leaf in leaves))]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_flex_attention_with_a_mask_and_a_learned_bias(way: str) -> None:
    expected = gradients(causal_biased, inputs())
    actual = gradients(maybe_compiled(flex, way), [tensor.to("neuron") for tensor in inputs()])
    for one, two in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, two, **TOLERANCE)
    if way == "compiled":
        metrics = compiler.get_dynamo_metrics()
        # The mask is made in a graph of its own or in the first; the attention is never left to eager calls.
        assert metrics["ops_eager"] == []
        assert [graph["kind"] for graph in metrics["graphs"]] == ["forward", "backward"]
        assert {"aten::mm", "aten::bmm", "aten::exp"} & {op.operator for op in compiler.compiled_ops()}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_flex_attention_is_cast_by_autocast(way: str) -> None:
    def cast(*arguments: torch.Tensor) -> torch.Tensor:
        with torch.autocast("neuron", dtype=torch.bfloat16):
            result = flex_attention(*arguments)
        assert result.dtype == torch.bfloat16
        return result

    def plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return (query @ key.transpose(-1, -2) / math.sqrt(8)).softmax(-1) @ value

    expected = gradients(plain, inputs()[:3])
    actual = gradients(maybe_compiled(cast, way), [tensor.to("neuron") for tensor in inputs()[:3]])
    for one, two in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, two, **COARSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_grouped_products_of_experts(way: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    arguments = [torch.randn(size, generator=generator).to(dtype) for size in ((8, 8), (3, 8, 16))]
    ends = torch.tensor([3, 3, 8], dtype=torch.int32)  # the second expert has no row
    ours = ends.to("neuron")
    expected = gradients(lambda x, w: F.grouped_mm(x, w, offs=ends), arguments)
    function = maybe_compiled(lambda x, w: F.grouped_mm(x, w, offs=ours), way)
    actual = gradients(function, [tensor.to("neuron") for tensor in arguments])
    for one, two in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, two, **(TOLERANCE if dtype == torch.float32 else COARSE))
    if way == "compiled":
        assert compiler.get_dynamo_metrics()["ops_eager"] == []
        assert "aten::_grouped_mm" in {op.operator for op in compiler.compiled_ops()}
