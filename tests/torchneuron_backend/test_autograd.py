"""Autograd on the device: its threads, hooks, custom functions, checks and errors."""

import copy
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

DEVICE = "neuron"


def test_each_device_has_a_thread_of_its_own() -> None:
    torch.ones(2, device=DEVICE, requires_grad=True).sum().backward()
    tasks = Path("/proc/self/task")
    names = {(tasks / task / "comm").read_text().strip() for task in os.listdir(tasks)}
    assert {f"pt_autograd_{index}" for index in range(torch.neuron.device_count())} <= names


def test_hooks_see_device_tensors() -> None:
    seen = []
    x = torch.ones(2, device=DEVICE, requires_grad=True)
    x.register_hook(lambda grad: seen.append((grad.device, torch.neuron.current_device())) or grad * 2)
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append((leaf.grad.device, 0)))
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6, 6]
    assert seen == [(torch.device("neuron:0"), 0)] * 2


def test_backward_of_another_device_runs_with_that_device_current() -> None:
    seen = []
    x = torch.ones(2, device="neuron:1", requires_grad=True)
    x.register_hook(lambda grad: seen.append(torch.neuron.current_device()))
    (x * 3).sum().backward()
    assert seen == [1]
    assert torch.neuron.current_device() == 0


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        context.save_for_backward(x)
        context.factor = factor
        return x.square() * factor

    @staticmethod
    def backward(context: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = context.saved_tensors
        return grads[0] * 2 * x * context.factor, None


def test_a_custom_function() -> None:
    x = torch.arange(3.0, device=DEVICE, requires_grad=True)
    out = Scaled.apply(x, 2.0)
    out.sum().backward()
    assert x.grad is not None
    assert (x.grad.device, x.grad.tolist()) == (torch.device("neuron:0"), [0, 4, 8])


def test_gradients_to_the_second_order_are_right() -> None:
    x = torch.rand(3, dtype=torch.float64, device=DEVICE, requires_grad=True)
    weight = torch.rand(3, 3, dtype=torch.float64, device=DEVICE, requires_grad=True)

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (weight @ x).tanh().prod()

    assert torch.autograd.gradcheck(function, (x, weight))
    assert torch.autograd.gradgradcheck(function, (x, weight))


def test_a_gradient_accumulates_in_place_and_on_its_device() -> None:
    x = torch.ones(2, device="neuron:1", requires_grad=True)
    for _ in range(3):
        (x * 2).sum().backward()
    assert x.grad is not None
    assert (x.grad.device, x.grad.tolist()) == (torch.device("neuron:1"), [6, 6])
    with pytest.raises(
        RuntimeError, match="gradient with device type 'cpu' to a tensor with device type 'neuron'"
    ):
        x.grad = torch.ones(2)


def test_saved_tensors_can_be_kept_on_the_host() -> None:
    x = torch.arange(4.0, device=DEVICE, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).exp()
    y.sum().backward()
    expected = torch.arange(4.0, requires_grad=True)
    (expected * expected).exp().sum().backward()
    assert x.grad is not None
    assert expected.grad is not None
    assert x.grad.cpu().equal(expected.grad)


def test_anomaly_mode_names_the_function() -> None:
    x = torch.zeros(2, device=DEVICE, requires_grad=True)
    with (
        pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values"),
        pytest.warns(UserWarning, match="Error detected in SqrtBackward0"),
        torch.autograd.detect_anomaly(),
    ):
        (x.sqrt() * 0).sum().backward()


def test_an_error_in_backward_reaches_the_caller() -> None:
    x = torch.ones(2, device=DEVICE, requires_grad=True)

    def fail(grad: torch.Tensor) -> None:
        raise ValueError("in the hook")

    x.register_hook(fail)
    with pytest.raises(ValueError, match="in the hook"):
        (x * 2).sum().backward()
    assert (torch.ones(2, device=DEVICE) + 1).tolist() == [2, 2]


def test_many_threads_differentiate_at_once() -> None:
    weight = torch.ones(16, 16, device=DEVICE)
    results = []

    def work(number: int) -> None:
        x = torch.full((16, 16), float(number), device=DEVICE, requires_grad=True)
        for _ in range(10):
            x.grad = None
            (x @ weight).sum().backward()
        assert x.grad is not None
        results.append(x.grad.sum().item())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [16.0**3] * 4


def test_only_leaves_are_deep_copied() -> None:
    base = torch.arange(6.0, device="neuron:1")
    whole, part = copy.deepcopy([base, base[2:4]])
    part.fill_(0)
    assert whole.tolist() == [0, 1, 0, 0, 4, 5]
    assert base.tolist() == [0, 1, 2, 3, 4, 5]
    leaf = torch.ones(2, device=DEVICE, requires_grad=True)
    leaf.sum().backward()
    copied = copy.deepcopy(leaf)
    assert copied.grad is not None
    assert (copied.requires_grad, copied.grad.tolist(), copied.device) == (True, [1, 1], leaf.device)
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(leaf * 2)


def test_fake_tensors_carry_the_device() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = torch.empty(3, 3, device="neuron:1") @ torch.empty(3, 2, device="neuron:1")
        converted = mode.from_tensor(torch.ones(2, device=DEVICE))
    assert (fake.device, fake.shape) == (torch.device("neuron:1"), (3, 2))
    assert converted.device == torch.device("neuron:0")
