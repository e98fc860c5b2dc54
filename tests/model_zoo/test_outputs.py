"""Outputs: every tensor by name, and a loss whose gradients mean something."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from transformers.modeling_outputs import MaskedLMOutput

from model_zoo.outputs import NoLossError, loss_of, named_tensors


@dataclass
class _Pair:
    left: torch.Tensor
    right: object


def test_every_tensor_has_its_path_in_order() -> None:
    layers = (torch.zeros(1), torch.ones(2))
    output = MaskedLMOutput(logits=torch.zeros(3), hidden_states=layers)
    assert [name for name, _ in named_tensors(output)] == ["logits", "hidden_states.0", "hidden_states.1"]
    nested = {"a": [torch.zeros(1), {"b": torch.zeros(1)}], "c": _Pair(torch.zeros(1), None), "d": "text"}
    assert [name for name, _ in named_tensors(nested)] == ["a.0", "a.1.b", "c.left"]
    assert [name for name, _ in named_tensors(torch.zeros(1))] == ["output"]
    assert named_tensors(object()) == []


def test_the_models_own_loss_is_taken() -> None:
    weight = torch.ones((), requires_grad=True)
    output = MaskedLMOutput(loss=weight * 3, logits=(weight * 5).reshape(1))
    assert loss_of(output).item() == 3.0


def test_a_model_that_ends_in_a_norm_still_gets_gradients() -> None:
    """The plain mean of a layer norm's output is constant, and its gradient rounding noise."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(32, 32)
    output = torch.nn.functional.layer_norm(layer(torch.randn(4, 32)), (32,))
    output.mean().backward(retain_graph=True)
    assert layer.weight.grad is not None
    noise = layer.weight.grad.norm().item()
    layer.weight.grad = None
    loss_of((output,)).backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.norm().item() > 1000 * noise


def test_outputs_share_the_loss_whatever_their_size() -> None:
    small = torch.ones(7, requires_grad=True)
    large = torch.ones(7000, requires_grad=True)
    loss_of({"small": small, "large": large, "count": torch.ones(3, dtype=torch.int64)}).backward()
    assert small.grad is not None
    assert large.grad is not None
    assert small.grad.abs().sum().item() == pytest.approx(large.grad.abs().sum().item(), rel=1e-4)


def test_an_output_without_a_gradient_is_an_error() -> None:
    with pytest.raises(NoLossError, match="dict"):
        loss_of({"a": torch.ones(2), "b": torch.ones(2, dtype=torch.int64)})
