"""Training steps: compiled models and optimizers, rates that change, gradients that add up, autocast."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import torchneuron_backend.compiler as compiler

# Float32 updates of size 1e-2 after a few steps; what differs is the order of sums.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()


def twins() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    return reference, copy.deepcopy(reference).to("neuron")


def assert_same_weights(ours: nn.Module, reference: nn.Module) -> None:
    for one, two in zip(ours.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one.detach().cpu(), two.detach(), **TOLERANCE)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, step: Any, device: str, steps: int = 3) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 4, generator=generator).to(device)).square().sum().backward()
        step()


OPTIMIZERS = [
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adam", {}),
    ("Adam", {"foreach": False, "amsgrad": True}),
    ("AdamW", {}),
    ("RMSprop", {}),
    ("Adagrad", {}),
]


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_a_compiled_optimizer_is_one_program_and_updates_as_on_the_cpu(name: str, options: Any) -> None:
    reference, model = twins()
    kind = getattr(torch.optim, name)
    theirs, ours = (kind(one.parameters(), lr=0.01, **options) for one in (reference, model))
    train(reference, theirs, theirs.step, "cpu")
    train(model, ours, torch.compile(lambda: ours.step(), backend="neuron"), "neuron")
    assert_same_weights(model, reference)
    metrics = compiler.get_dynamo_metrics()
    assert metrics["partitions"] == metrics["graphs_compiled"] >= 1
    assert metrics["ops_eager"] == []
    state = ours.state[model[0].weight]
    on_device = [value for key, value in state.items() if key != "step" and value is not None]
    assert {value.device.type for value in on_device} == {"neuron"}


def test_a_fused_optimizer_is_left_to_its_kernel_as_on_every_device() -> None:
    reference, model = twins()
    theirs = torch.optim.AdamW(reference.parameters(), lr=0.01)
    ours = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    train(reference, theirs, theirs.step, "cpu")
    train(model, ours, torch.compile(lambda: ours.step(), backend="neuron"), "neuron")
    assert_same_weights(model, reference)
    assert compiler.get_dynamo_metrics()["graphs_compiled"] == 0


def test_a_rate_that_is_a_tensor_changes_without_another_compilation() -> None:
    reference, model = twins()
    theirs = torch.optim.Adam(reference.parameters(), lr=torch.tensor(0.01), foreach=False)
    ours = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01, device="neuron"), foreach=False)
    schedules = [torch.optim.lr_scheduler.ExponentialLR(one, 0.5) for one in (theirs, ours)]
    compiled = torch.compile(lambda: ours.step(), backend="neuron")

    def eager_step() -> None:
        theirs.step()
        schedules[0].step()

    def compiled_step() -> None:
        compiled()
        schedules[1].step()

    train(reference, theirs, eager_step, "cpu")
    train(model, ours, compiled_step, "neuron")
    assert_same_weights(model, reference)
    assert float(ours.param_groups[0]["lr"]) == pytest.approx(0.00125)
    metrics = compiler.get_dynamo_metrics()
    # The first step makes the state, the second finds it; the third is the second again.
    assert metrics["graphs_compiled"] <= 2
    assert metrics["ops_eager"] == []


def test_gradients_of_several_batches_add_up() -> None:
    reference, model = twins()
    compiled = torch.compile(model, backend="neuron", fullgraph=True)
    for seed in range(3):
        x = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))
        reference(x).square().sum().backward()
        compiled(x.to("neuron")).square().sum().backward()
    for one, two in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one.grad.cpu(), two.grad, **TOLERANCE)
    metrics = compiler.get_dynamo_metrics()
    assert (metrics["graphs_compiled"], metrics["executions"]) == (2, 6)


def test_autocast_inside_a_compiled_step_casts_as_eager_does() -> None:
    _, model = twins()
    twin = copy.deepcopy(model)

    def step(one: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("neuron", dtype=torch.bfloat16):
            return one(x)

    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).to("neuron")
    eager, compiled = step(twin, x), torch.compile(step, backend="neuron", fullgraph=True)(model, x)
    assert compiled.dtype == eager.dtype == torch.bfloat16
    for result in (eager, compiled):
        result.float().square().sum().backward()
    torch.testing.assert_close(compiled, eager, rtol=2**-7, atol=2**-7)
    for one, two in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, rtol=2**-5, atol=2**-5)
    assert ("aten::addmm", "bfloat16") in {(op.operator, op.dtype) for op in compiler.compiled_ops()}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).relu()


def test_the_default_backend_can_be_neuron_and_a_module_compiles_itself() -> None:
    model = Model().to("neuron")
    x = torch.ones(3, 4, device="neuron")
    expected = model(x)
    torch.compiler.set_default_backend("neuron")
    try:
        model.compile(fullgraph=True)
        result = model(x)
    finally:
        torch.compiler.set_default_backend(None)
    torch.testing.assert_close(result, expected, **TOLERANCE)
    result.sum().backward()
    assert [graph["kind"] for graph in compiler.get_dynamo_metrics()["graphs"]] == ["forward", "backward"]
