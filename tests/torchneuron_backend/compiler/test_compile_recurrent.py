"""Recurrent cells, which torch sends to fused operators that it cannot trace by itself."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import torchneuron_backend.compiler as compiler


def loss(cell: nn.Module, x: torch.Tensor) -> torch.Tensor:
    state = None
    for _ in range(2):
        state = cell(x, state)
    return (state[0] if isinstance(state, tuple) else state).square().sum()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell])
def test_a_cell_compiles_with_its_gradients(kind: type[nn.Module], bias: bool) -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()
    torch.manual_seed(0)
    cell = kind(5, 7, bias=bias)
    twin, x = copy.deepcopy(cell).to("neuron"), torch.randn(3, 5)
    expected = loss(cell, x)
    expected.backward()
    actual = torch.compile(lambda x: loss(twin, x), backend="neuron", fullgraph=True)(x.to("neuron"))
    actual.backward()
    # Two steps of ten products each in float32, summed in another order: a few units in the last place.
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-6)
    for one, two in zip(twin.parameters(), cell.parameters(), strict=True):
        torch.testing.assert_close(one.grad.cpu(), two.grad, rtol=1e-5, atol=1e-6)
    assert compiler.get_dynamo_metrics()["graphs_compiled"] == 2


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.layer = kind(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0].square().sum()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_layer_compiles_where_dynamo_is_told_to_trace_it(kind: type[nn.Module]) -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()
    torch.manual_seed(0)
    model = Recurrent(kind)
    twin, x = copy.deepcopy(model).to("neuron"), torch.randn(2, 2, 3)
    model(x).backward()
    # As it is, the layer runs eagerly, and only what is around it may be compiled.
    torch.compile(twin, backend="neuron")(x.to("neuron")).backward()
    assert "aten::sigmoid" not in {op.operator for op in compiler.compiled_ops()}
    twin.zero_grad()
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()
    with torch._dynamo.config.patch(allow_rnn=True):
        torch.compile(twin, backend="neuron", fullgraph=True)(x.to("neuron")).backward()
    for one, two in zip(twin.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one.grad.cpu(), two.grad, rtol=1e-5, atol=1e-6)
    assert compiler.get_dynamo_metrics()["ops_eager"] == []
    assert "aten::sigmoid" in {op.operator for op in compiler.compiled_ops()}
