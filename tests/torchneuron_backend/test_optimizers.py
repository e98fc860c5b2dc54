"""Every optimizer of torch takes the CPU's steps on the device, in each of its implementations."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import Optimizer

# What they need beside parameters; None: not for dense tensors.
OPTIONS: dict[str, dict[str, Any] | None] = {
    "ASGD": {"lr": 0.1},
    "Adadelta": {},
    "Adafactor": {"lr": 0.1},
    "Adagrad": {"lr": 0.1},
    "Adam": {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"lr": 0.1},
    "Adamax": {"lr": 0.1},
    "LBFGS": {"lr": 0.1, "max_iter": 4, "line_search_fn": "strong_wolfe"},
    "Muon": {"lr": 0.1},
    "NAdam": {"lr": 0.1},
    "RAdam": {"lr": 0.1},
    "RMSprop": {"lr": 0.1, "momentum": 0.9, "centered": True},
    "Rprop": {"lr": 0.1},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "SparseAdam": None,
}
IMPLEMENTATIONS = ("foreach", "fused")


def test_the_table_names_every_optimizer_of_torch() -> None:
    here = {name for name, kind in vars(torch.optim).items() if inspect.isclass(kind)} - {"Optimizer"}
    assert here == set(OPTIONS)


def cases() -> Iterator[Any]:
    for name, options in OPTIONS.items():
        if options is None:
            continue
        kind = getattr(torch.optim, name)
        for implementation in IMPLEMENTATIONS:
            if implementation in inspect.signature(kind).parameters:
                yield pytest.param(kind, options | {implementation: True}, id=f"{name}-{implementation}")
        loop = {"foreach": False} if "foreach" in inspect.signature(kind).parameters else {}
        yield pytest.param(kind, options | loop, id=f"{name}-loop")


def trained(kind: type[Optimizer], options: dict[str, Any], device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    # Muon takes matrices only.
    model = nn.Sequential(nn.Linear(4, 5, bias=False), nn.Tanh(), nn.Linear(5, 3, bias=False)).to(device)
    batch = torch.randn(6, 4).to(device)
    steps = kind(model.parameters(), **options)

    def closure() -> torch.Tensor:
        steps.zero_grad()
        loss = model(batch).square().sum()
        loss.backward()
        return loss

    for _ in range(3):
        steps.step(closure)
    state = steps.state_dict()["state"].values()
    tensors = [value for entry in state for value in entry.values() if isinstance(value, torch.Tensor)]
    return [tensor.detach().cpu() for tensor in (*model.parameters(), *tensors)]


@pytest.mark.parametrize(("kind", "options"), list(cases()))
def test_steps_and_state_equal_the_cpu(kind: type[Optimizer], options: dict[str, Any]) -> None:
    expected = trained(kind, options, "cpu")
    got = trained(kind, options, "neuron")
    assert len(got) == len(expected) > 1
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-6, atol=1e-6)


def test_a_sparse_gradient_is_refused() -> None:
    table = nn.Embedding(4, 2, sparse=True, device="neuron")
    with pytest.raises(NotImplementedError, match="does not support sparse tensors"):
        table(torch.tensor([1], device="neuron")).sum().backward()


def test_state_stays_on_the_device_through_saving_and_loading() -> None:
    weight = nn.Parameter(torch.ones(3, device="neuron:1"))
    steps = torch.optim.Adam([weight], lr=0.1, fused=True)
    weight.square().sum().backward()
    steps.step()
    again = torch.optim.Adam([weight], lr=0.1, fused=True)
    again.load_state_dict(steps.state_dict())
    state = again.state[weight]
    assert {value.device for value in state.values()} == {torch.device("neuron:1")}
    again.step()
    assert state["step"].item() == 2


def test_parameters_of_two_devices_are_stepped_each_on_its_own() -> None:
    weights = [nn.Parameter(torch.ones(2, device=f"neuron:{index}")) for index in range(2)]
    steps = torch.optim.SGD(weights, lr=0.5, foreach=True)
    for weight in weights:
        weight.sum().backward()
    norm = nn.utils.clip_grad_norm_(weights, 100.0)
    steps.step()
    assert norm.item() == pytest.approx(2.0)
    assert [weight.tolist() for weight in weights] == [[0.5, 0.5], [0.5, 0.5]]


def test_the_gradient_scaler_skips_a_step_that_overflowed() -> None:
    weight = nn.Parameter(torch.ones(2, device="neuron"))
    steps = torch.optim.Adam([weight], lr=0.5, fused=True)
    scaler = torch.amp.GradScaler("neuron", init_scale=4.0)
    scaler.scale(weight.sum() * float("inf")).backward()
    scaler.step(steps)
    scaler.update()
    assert weight.tolist() == [1, 1]
    assert scaler.get_scale() == 2.0
    steps.zero_grad()
    scaler.scale(weight.sum()).backward()
    scaler.step(steps)
    assert weight.tolist() == pytest.approx([0.5, 0.5])
