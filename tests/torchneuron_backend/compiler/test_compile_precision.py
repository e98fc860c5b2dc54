"""What a normalisation keeps for its gradient: float32 by PyTorch's meta functions, two bytes by kernels."""

from __future__ import annotations

import pytest
import torch
from torch.fx import Graph, GraphModule

from torchneuron_backend.compiler.pieces import Pieces

aten = torch.ops.aten


def batch_norm(device, training, dtype, wrap=lambda function: function):
    """Result, gradients and running statistics."""
    generator = torch.Generator().manual_seed(0)
    values = (torch.randn(4, 3, 5, generator=generator), torch.tensor([0.5, 1.0, 2.0]), torch.ones(3))
    leaves = [each.bfloat16().to(device, dtype).requires_grad_() for each in values]
    running = [torch.zeros(3).to(device, dtype), torch.ones(3).to(device, dtype)]
    function = wrap(lambda *args: aten._native_batch_norm_legit(*args, training, 0.1, 1e-5)[0])
    result = function(*leaves, *running)
    result.float().pow(2).sum().backward()
    return [each.detach().cpu().float() for each in (result, *(leaf.grad for leaf in leaves), *running)]


@pytest.mark.parametrize("training", [True, False])
def test_a_batch_norm_in_two_bytes_has_a_compiled_gradient(training):
    torch._dynamo.reset()
    ours = batch_norm("neuron", training, torch.bfloat16, lambda f: torch.compile(f, backend="neuron"))
    cpu = batch_norm("cpu", training, torch.bfloat16)
    truth = batch_norm("cpu", training, torch.float32)
    for mine, theirs, right in zip(ours, cpu, truth, strict=True):
        own = (theirs - right).abs().max()  # what rounding to two bytes costs the CPU
        assert (mine - right).abs().max() <= 2 * own + right.abs().max() * 2**-8


def test_what_runs_eagerly_between_pieces_has_the_precision_it_was_traced_with():
    graph = Graph()
    x = graph.placeholder("x")
    doubled = graph.call_function(aten.mul.Tensor, (x, 2))
    doubled.meta["val"] = torch.empty(2, dtype=torch.float32)
    counted = graph.call_function(aten.ne.Scalar, (x, 0))
    counted.meta["val"] = torch.empty(2, dtype=torch.bool)
    graph.output((doubled, counted))
    results = Pieces(GraphModule({}, graph), {})([torch.ones(2, dtype=torch.bfloat16)])
    assert [each.dtype for each in results] == [torch.float32, torch.bool]
