"""Activation checkpointing: less is kept, the same is computed, dropout draws the same again."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchneuron_backend.compiler as compiler

TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


def step(model: nn.Module, x: torch.Tensor, **how: object) -> list[torch.Tensor]:
    """Gradients of ``model`` after one checkpointed step from a fixed seed, on the CPU."""
    model.zero_grad()
    torch.manual_seed(0)
    run = how.pop("run", lambda value: checkpoint(model, value, **how))
    run(x.requires_grad_()).square().sum().backward()
    return [parameter.grad.cpu() for parameter in model.parameters()]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_checkpointed_model_has_the_gradients_of_the_cpu(reentrant: bool, compiled: bool) -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()
    torch.manual_seed(1)
    reference = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.GELU(), nn.Linear(8, 4))
    model, x = copy.deepcopy(reference).to("neuron"), torch.randn(3, 4)
    expected = step(reference, x, run=reference)

    def run(value: torch.Tensor) -> torch.Tensor:
        return checkpoint(model, value, use_reentrant=reentrant)

    fast = torch.compile(run, backend="neuron") if compiled else run
    for one, two in zip(step(model, x.to("neuron"), run=fast), expected, strict=True):
        torch.testing.assert_close(one, two, **TOLERANCE)
    if compiled:
        assert {graph["kind"] for graph in compiler.get_dynamo_metrics()["graphs"]} >= {"forward", "backward"}


def test_a_compiled_checkpoint_recomputes_what_it_did_not_keep() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sin().sin().sum()

    sines = {}
    for name, run in (("kept", function), ("again", lambda x: checkpoint(function, x, use_reentrant=False))):
        torch._dynamo.reset()
        compiler.reset_dynamo_metrics()
        x = torch.ones(3, device="neuron", requires_grad=True)
        torch.compile(run, backend="neuron", fullgraph=True)(x).backward()
        (count,) = [op.calls for op in compiler.compiled_ops() if op.operator == "aten::sin"]
        sines[name] = count
    assert sines["kept"] == 3
    assert sines["again"] > 3
