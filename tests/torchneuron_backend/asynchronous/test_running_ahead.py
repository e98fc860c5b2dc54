"""The host runs ahead of the device's queue, and cannot tell otherwise."""

import pytest
import torch
import transformers

from tests.torchneuron_backend.asynchronous.work import gate, gates, learn, mark, ones, passed
from torchneuron_backend import launch


def test_the_host_runs_ahead_until_it_synchronises() -> None:
    x = ones()
    y = gate(x)
    event = torch.neuron.Event()
    event.record()
    assert not torch.neuron.current_stream().query()
    assert not event.query()
    gates[0].set()
    event.synchronize()
    assert event.query()
    torch.neuron.synchronize()
    assert torch.neuron.current_stream().query()
    assert y.tolist() == [2] * 4


def test_the_first_call_of_a_kind_is_waited_for_and_the_next_is_not() -> None:
    x = ones(5, 7)
    before = launch.launched()
    first = x.mul(3.0)
    assert launch.launched() == before
    assert torch.neuron.current_stream().query()
    second = x.mul(4.0)  # another number, but no shape depends on it
    assert launch.launched() == before + 1
    assert (first.sum().item(), second.sum().item()) == (105, 140)
    assert first.stride() == second.stride()


def test_a_stream_keeps_its_order() -> None:
    x = ones()
    learn(lambda: x.clone().add_(1).mul_(3))
    y = gate(x).add_(1)
    for number in range(1, 20):
        y = mark(y, number)
    y.mul_(3)
    assert passed == []
    gates[0].set()
    assert y.tolist() == [66] * 4
    assert passed == list(range(20))


@pytest.mark.parametrize("transposed", [False, True])
def test_results_have_the_geometry_they_always_had(transposed: bool) -> None:
    x = torch.randn(2, 3, 4, device="neuron").transpose(0, 2)
    call = (lambda: x.exp().transpose(0, 1)) if transposed else (lambda: x.exp())
    first, later = call(), call()
    assert (later.shape, later.stride(), later.dtype) == (first.shape, first.stride(), first.dtype)
    assert later.equal(first)


def test_lists_and_absent_results_are_results_too() -> None:
    x, weight = torch.randn(2, 3, device="neuron"), torch.randn(4, 3, device="neuron", requires_grad=True)

    def step() -> tuple[torch.Tensor, ...]:
        split = torch.split_copy(x, 1)
        conv = torch.nn.functional.conv1d(x[None], weight[:, :2, None])
        (grad,) = torch.autograd.grad(conv.sum(), weight)  # the input and the bias have no gradient
        return (*split, *torch._foreach_add([x, x], 1.0), grad)

    for first, later in zip(step(), step(), strict=True):
        assert later.equal(first)


def test_what_the_host_does_to_arguments_afterwards_comes_too_late() -> None:
    x, other, number = ones(), ones(2), torch.tensor(2.0)
    learn(lambda: x * number, lambda: x + 1)
    held = gate(x)
    product, total = x * number, held + 1
    number.fill_(100)
    x.set_(other)  # another memory, another shape
    held.unsqueeze_(0)
    gates[0].set()
    assert product.tolist() == [2] * 4
    assert total.tolist() == [3] * 4


def test_a_shape_that_depends_on_the_data_is_waited_for() -> None:
    x = torch.tensor([0.0, 1, 2], device="neuron")
    for values in ([0.0, 1, 2], [0.0, 0, 5], [1.0, 1, 1]):
        x.copy_(torch.tensor(values))
        count = sum(value != 0 for value in values)
        assert x.nonzero().shape == (count, 1)
        assert x[x != 0].shape == (count,)
        assert torch.masked_select(x, x != 0).shape == (count,)
        assert len(x.unique()) == len(set(values))


def test_an_out_argument_that_has_to_grow_is_waited_for() -> None:
    x = ones(3)
    for _ in range(2):
        out = torch.empty(0, device="neuron")
        torch.add(x, x, out=out)
        assert out.tolist() == [2] * 3
    right = torch.empty(3, device="neuron")
    y = x * 2
    learn(lambda: torch.add(x, y, out=right))
    before = launch.launched()
    assert torch.add(x, y, out=right) is right
    assert launch.launched() == before + 1
    assert right.tolist() == [3] * 3


def test_random_numbers_come_in_the_order_of_the_calls() -> None:
    side = torch.neuron.Stream()

    def draw() -> list[torch.Tensor]:
        torch.manual_seed(3)
        drawn = [torch.rand(4, device="neuron")]
        with side:
            drawn.append(torch.nn.functional.dropout(ones(8)))
        drawn.append(torch.randn(2, device="neuron"))
        return [tensor.cpu() for tensor in drawn]

    ahead = draw()
    launch.set_launch_blocking(True)
    assert all(a.equal(b) for a, b in zip(ahead, draw(), strict=True))


def bert_step() -> list[torch.Tensor]:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    model = transformers.BertForMaskedLM(config).to("neuron").train()
    tokens = torch.randint(3, 60, (2, 8)).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return [tensor.detach().cpu() for tensor in (*losses, *model.parameters())]


def test_a_model_trains_bit_for_bit_as_with_blocking_launch() -> None:
    before = launch.launched()
    ahead = bert_step()
    assert launch.launched() - before > 1000  # most of it was queued
    launch.set_launch_blocking(True)
    assert all(a.equal(b) for a, b in zip(ahead, bert_step(), strict=True))
