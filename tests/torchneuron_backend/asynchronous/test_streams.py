"""Streams and events: what the queue takes first, and what waits for what."""

import threading

import pytest
import torch

import torchneuron_backend
from tests.torchneuron_backend.asynchronous.work import entered, gate, gates, mark, ones, passed
from torchneuron_backend import launch


def test_the_queue_takes_the_stream_of_the_highest_priority_first() -> None:
    low, high = torch.neuron.Stream(), torch.neuron.Stream(priority=-1)
    highest = torch.Stream(device="neuron", priority=-99)
    x = ones()
    torch.neuron.synchronize()
    gate(x)
    assert entered.wait(60)  # otherwise what is launched next may overtake the gate
    for number, stream in enumerate([low, high, low, highest, high], start=1):
        with stream:
            mark(x, number)
    gates[0].set()
    torch.neuron.synchronize()
    assert passed == [0, 4, 2, 5, 1, 3]


def test_among_equals_it_takes_what_was_launched_first() -> None:
    streams = [torch.neuron.Stream() for _ in range(3)]
    x = ones()
    torch.neuron.synchronize()
    gate(x)
    for number in range(1, 10):
        with streams[number % 3]:
            mark(x, number)
    gates[0].set()
    torch.neuron.synchronize()
    assert passed == list(range(10))


def test_priorities() -> None:
    assert torch.neuron.Stream.priority_range() == (0, -3)
    wanted = [5, 0, -1, -2, -3, -50]
    assert [torch.neuron.Stream(priority=p).priority for p in wanted] == [0, 0, -1, -2, -3, -3]
    assert torch.neuron.Stream(1, priority=-2).device == torch.device("neuron:1")


def test_the_current_stream_is_one_of_the_modules_own() -> None:
    with torch.neuron.stream(torch.neuron.Stream(1, priority=-2)) as entered, torch.neuron.stream(None):
        current = torch.neuron.current_stream(1)
        assert isinstance(current, torch.neuron.Stream)
        assert current == entered
        assert (current.priority, torch.neuron.default_stream(1).priority) == (-2, 0)


@pytest.mark.parametrize("how", ["wait_stream", "wait_event", "event.wait"])
@pytest.mark.parametrize("device", ["neuron:0", "neuron:1"])
def test_a_stream_waits_for_another(how: str, device: str) -> None:
    first, second = torch.neuron.Stream(), torch.neuron.Stream(device, priority=-1)
    other = ones(device=device)
    torch.neuron.synchronize()
    with first:
        gate(ones())
        event = first.record_event()
    if how == "wait_stream":
        second.wait_stream(first)
    elif how == "wait_event":
        second.wait_event(event)
    else:
        event.wait(second)
    with second:
        mark(other, 1)
    assert not second.query()
    assert passed == []
    gates[0].set()
    second.synchronize()
    assert passed == [0, 1]
    assert first.query()


def test_a_stream_that_waits_does_not_hold_up_the_others() -> None:
    waiting, free = torch.neuron.Stream(priority=-1), torch.neuron.Stream()
    here, there = ones(device="neuron:0"), ones(device="neuron:1")
    torch.accelerator.synchronize(0)
    gate(there)  # on the other device
    waiting.wait_event(torch.neuron.current_stream(1).record_event())
    with waiting:
        mark(here, 1)
    with free:
        mark(here, 2)
    free.synchronize()
    assert passed == [2]
    gates[0].set()
    waiting.synchronize()
    assert passed == [2, 0, 1]


def test_elapsed_time_is_that_of_the_work_and_adds_up() -> None:
    events = [torch.neuron.Event(enable_timing=True) for _ in range(3)]
    x = ones()
    events[0].record()
    gate(x)
    events[1].record()
    mark(x, 1)
    events[2].record()
    with pytest.raises(RuntimeError, match="must be completed before calculating elapsed time"):
        events[0].elapsed_time(events[1])
    threading.Timer(0.05, gates[0].set).start()
    events[2].synchronize()
    first, second = events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2])
    assert first > 0 < second
    assert events[0].elapsed_time(events[2]) == pytest.approx(first + second)
    row = next(r for r in torchneuron_backend.op_counters() if r["op"] == "neuron_streams::gate")
    assert row["ns"] / 1e6 <= first  # milliseconds, measured around the kernel in the queue


def test_an_event_recorded_again_is_a_new_moment() -> None:
    x, event = ones(), torch.neuron.Event()
    gate(x, 0)
    event.record()
    other = torch.neuron.Stream()
    other.wait_event(event)
    gate(x, 1)
    event.record()
    gates[0].set()
    other.synchronize()  # waits for the first moment only
    assert not event.query()
    gates[1].set()
    event.synchronize()


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match")
def test_autograd_runs_backward_on_the_streams_of_forward() -> None:
    x = torch.randn(4, 4, device="neuron", requires_grad=True)
    side = torch.neuron.Stream()

    def step() -> list[torch.Tensor]:
        side.wait_stream(torch.neuron.current_stream())
        with side:
            y = (x @ x).tanh()
        torch.neuron.current_stream().wait_stream(side)
        (grad,) = torch.autograd.grad((y * x).sum(), x)
        return [y.detach().cpu(), grad.cpu()]

    ahead = [step() for _ in range(3)][-1]
    launch.set_launch_blocking(True)
    assert all(a.equal(b) for a, b in zip(ahead, step(), strict=True))
