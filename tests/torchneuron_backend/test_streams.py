"""Asynchronous launch: the host runs ahead of the device's queue, and cannot tell otherwise.

A custom operator whose host kernel waits for a gate stands in for slow work: nothing here depends on how fast
anything is.
"""

import copy
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import transformers
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import torchneuron_backend
from tests.torchneuron_backend.conftest import run_python
from torchneuron_backend import _C, faults, launch, memory, numerics

LIBRARY = torch.library.Library("neuron_streams", "DEF")
LIBRARY.define("gate(Tensor x, Scalar number) -> Tensor")
LIBRARY.define("mark(Tensor x, Scalar number) -> Tensor")

gates: dict[int, threading.Event] = {}
passed: list[int] = []


def _gate(x: torch.Tensor, number: int) -> torch.Tensor:
    assert gates[number].wait(60)
    return _mark(x, number)


def _mark(x: torch.Tensor, number: int) -> torch.Tensor:
    passed.append(number)
    if number < 0:
        raise ValueError(f"mark {number}")
    return x + 1


LIBRARY.impl("gate", _gate, "CPU")
LIBRARY.impl("mark", _mark, "CPU")
FLOAT32 = 1 << _C.dtype_number(torch.float32)
_C.register_lowerings([("neuron_streams::gate", FLOAT32), ("neuron_streams::mark", FLOAT32)])


def gate(x: torch.Tensor, number: int = 0) -> torch.Tensor:
    """Work that does not end before ``gates[number]`` is open; x + 1."""
    result: torch.Tensor = torch.ops.neuron_streams.gate(x, number)
    return result


def mark(x: torch.Tensor, number: int) -> torch.Tensor:
    """Work that notes its number; x + 1. Fails when the number is negative."""
    result: torch.Tensor = torch.ops.neuron_streams.mark(x, number)
    return result


def ones(*shape: int, device: str = "neuron:0") -> torch.Tensor:
    return torch.ones(*(shape or (4,)), device=device)


@pytest.fixture(autouse=True)
def asynchronous() -> Iterator[None]:
    """Asynchronous launch, closed gates, and the device past the first calls, which it waits for."""
    before = launch.is_launch_blocking()
    launch.set_launch_blocking(False)
    gates.clear()
    gates.update({number: threading.Event() for number in range(3)})
    gates[9] = threading.Event()
    gates[9].set()
    for device in ("neuron:0", "neuron:1"):
        gate(ones(device=device), 9)
        mark(ones(device=device), 9)
    torchneuron_backend.reset_op_counters()
    passed.clear()
    yield
    for event in gates.values():
        event.set()
    launch.set_launch_blocking(before)


def learn(*calls: Callable[[], Any]) -> None:
    """Make calls once, so that the next of their kind are launched and not waited for."""
    for call in calls:
        call()
    torch.neuron.synchronize()


# Running ahead


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


# Streams and events


def test_the_queue_takes_the_stream_of_the_highest_priority_first() -> None:
    low, high = torch.neuron.Stream(), torch.neuron.Stream(priority=-1)
    highest = torch.Stream(device="neuron", priority=-99)
    x = ones()
    torch.neuron.synchronize()
    gate(x)
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


# Errors


def late() -> None:
    mark(ones(), -1)


SYNCHRONISATIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "torch.neuron.synchronize": lambda x: torch.neuron.synchronize(),
    "torch.accelerator.synchronize": lambda x: torch.accelerator.synchronize(),
    "stream.synchronize": lambda x: torch.neuron.current_stream().synchronize(),
    "event.synchronize": lambda x: torch.neuron.current_stream().record_event().synchronize(),
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "from pageable memory": lambda x: x.copy_(torch.zeros(4)),
    "print": lambda x: repr(x),
    "bool": lambda x: bool(x[0] > 0),
    "fallback": lambda x: torch.ops.neuron_tests.two(x),
    "another kind of call": lambda x: torch.special.i0e(x.view(2, 2).view(4)[:3]),
    "a shape that depends on the data": lambda x: x.nonzero(),
    "host_alias": lambda x: memory.host_alias(x),
    "dlpack": lambda x: x.__dlpack__(),
    "to_dlpack": lambda x: torch.utils.dlpack.to_dlpack(x),
    "deepcopy to the host": lambda x: copy.deepcopy(x).cpu(),
}


@pytest.mark.parametrize("how", SYNCHRONISATIONS)
def test_an_error_is_raised_at_the_next_synchronisation_and_names_the_operator(how: str) -> None:
    x = ones()
    late()
    sentence = (
        r"^neuron_streams::mark failed on neuron:0 in the default stream and is reported now, at a "
        r"synchronisation; what was queued behind it has been dropped: ValueError: mark -1"
    )
    with pytest.raises(RuntimeError, match=sentence):
        SYNCHRONISATIONS[how](x)
    SYNCHRONISATIONS[how](x)  # once


def test_an_index_out_of_range_is_found_late() -> None:
    table = ones(3, 2)
    learn(lambda: table.index_select(0, torch.tensor([0, 1], device="neuron")))
    bad = torch.tensor([0, 7], device="neuron")
    table.index_select(0, bad)
    with pytest.raises(RuntimeError, match=r"aten::index_select failed on neuron:0 .* out of range"):
        torch.neuron.synchronize()


def test_errors_in_arguments_are_raised_by_the_call() -> None:
    x = ones(2, 3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
            x.mm(x)
        with pytest.raises(RuntimeError, match="must match"):
            x.add_(ones(5))
        with pytest.raises(RuntimeError, match=r"expand|match"):
            x.copy_(ones(7))
    torch.neuron.synchronize()


def test_what_is_behind_an_error_is_dropped_and_then_the_stream_works_again() -> None:
    x = ones()
    learn(lambda: x.clone().add_(1))
    y = x.clone()
    torch.neuron.synchronize()
    gate(x)
    mark(x, -5)
    y.add_(1)
    mark(x, 6)
    gates[0].set()
    with pytest.raises(RuntimeError, match="mark -5"):
        torch.neuron.synchronize()
    assert passed == [0, -5]
    assert y.tolist() == [1] * 4
    assert y.add_(1).tolist() == [2] * 4
    rows = {r["op"]: r["calls"] for r in torchneuron_backend.op_counters()}
    assert "neuron_streams::mark" not in rows  # neither what raised nor what was dropped
    assert rows["neuron_streams::gate"] == 1


def test_an_error_stops_the_streams_that_wait_for_it_and_no_other() -> None:
    failing, waiting, free = (torch.neuron.Stream() for _ in range(3))
    there = torch.neuron.Stream(1)
    x, y = ones(), ones(device="neuron:1")
    torch.neuron.synchronize()
    torch.neuron.synchronize(1)
    with failing:
        gate(x)
        mark(x, -1)
    for stream in (waiting, there):
        stream.wait_stream(failing)
    with waiting:
        mark(x, 1)
    with there:
        mark(y, 2)
    with free:
        mark(x, 3)
    gates[0].set()
    free.synchronize()
    with pytest.raises(RuntimeError, match=f"in stream {failing.stream_id} .*mark -1"):
        there.synchronize()
    for device in (0, 1):
        torch.neuron.synchronize(device)
    assert sorted(passed) == [-1, 0, 3]


def test_injected_errors_come_by_the_queue() -> None:
    x = ones(2, 2)
    learn(lambda: x.mm(x))
    for kind in ("error", "late_error"):
        faults.set("aten::mm", kind, at=2)
        x.mm(x)
        x.mm(x)
        with pytest.raises(RuntimeError, match=r"aten::mm failed on neuron:0 .*injected fault: aten::mm"):
            torch.neuron.synchronize()
    faults.set("aten::_copy_from", "error")
    x.clone()
    with pytest.raises(RuntimeError, match="injected fault: aten::_copy_from"):
        x.cpu()


@pytest.mark.parametrize(("kind", "sent"), [("crash", signal.SIGSEGV), ("abort", signal.SIGABRT)])
def test_a_process_dies_in_its_queue(kind: str, sent: int) -> None:
    code = (
        "import torch; x = torch.ones(2, 2, device='neuron'); x.mm(x); x.mm(x)\n"
        "print('launched', flush=True); torch.neuron.synchronize(); print('alive')"
    )
    done = run_python(code, NEURON_LAUNCH_BLOCKING="0", TORCHNEURON_FAULTS=f"aten::mm:{kind}@2")
    assert done.returncode == -sent
    assert "alive" not in done.stdout


def test_a_hang_leaves_the_host_running_until_it_waits() -> None:
    code = (
        "import os, threading, torch; x = torch.ones(2, 2, device='neuron'); x.mm(x); x.mm(x)\n"
        "print(torch.neuron.current_stream().query(), flush=True)\n"
        "threading.Timer(0.5, os._exit, [7]).start(); torch.neuron.synchronize(); print('not reached')"
    )
    done = run_python(code, NEURON_LAUNCH_BLOCKING="0", TORCHNEURON_FAULTS="aten::mm:hang@2")
    assert (done.returncode, done.stdout) == (7, "False\n")


@pytest.mark.parametrize("kind", ["nan", "wrong_dtype", "wrong_shape", "oom", "silent_fallback"])
def test_faults_that_change_a_result_are_seen_by_the_call(kind: str) -> None:
    x = ones(2, 2)
    learn(lambda: x.mm(x))
    faults.set("aten::mm", kind)
    if kind == "oom":
        with pytest.raises(torch.OutOfMemoryError):
            x.mm(x)
        return
    y = x.mm(x)
    assert y.isnan().all() == (kind == "nan")
    assert (y.dtype == torch.float64) == (kind == "wrong_dtype")
    assert (y.dim() == 3) == (kind == "wrong_shape")


def test_a_warning_is_given_by_the_next_synchronisation() -> None:
    x = ones(1)
    with pytest.warns(UserWarning, match="degrees of freedom"):
        x.var()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gate(ones())
        x.var()
        assert caught == []
        gates[0].set()
        torch.neuron.synchronize()
    assert ["degrees of freedom" in str(warning.message) for warning in caught] == [True]


# Copies


def test_copies_from_and_to_pinned_memory_are_queued() -> None:
    host, back = torch.full((4,), 5.0).pin_memory(), torch.zeros(4).pin_memory()
    x = ones()
    gate(x)
    x.copy_(host, non_blocking=True)
    back.copy_(x, non_blocking=True)
    assert passed == []
    gates[0].set()
    torch.neuron.synchronize()
    assert back.tolist() == [5] * 4


def test_pinned_memory_that_is_let_go_is_not_reused_before_it_was_read() -> None:
    x = ones()
    gate(x)
    x.copy_(torch.full((4,), 5.0).pin_memory(), non_blocking=True)
    others = [torch.zeros(4).pin_memory() for _ in range(4)]
    gates[0].set()
    assert x.tolist() == [5] * 4
    assert len(others) == 4


def test_a_copy_between_devices_waits_for_both_and_both_wait_for_it() -> None:
    source, target = ones(device="neuron:0"), ones(device="neuron:1")
    learn(lambda: source.clone().add_(1))
    torch.neuron.synchronize(1)
    gate(source, 0)
    source.add_(6)
    target.copy_(source)  # not before the 7
    source.add_(1)  # not before it was copied
    gates[0].set()
    assert target.tolist() == [7] * 4
    assert source.tolist() == [8] * 4
    gate(target, 1)
    target.copy_(source)
    torch.neuron.current_stream(0).query()
    gates[1].set()
    assert target.tolist() == [8] * 4


def test_overlapping_memory_is_copied_or_refused_as_always() -> None:
    x = torch.arange(6.0, device="neuron")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"single memory location|overlap"):
            x.expand(2, 6).copy_(ones(2, 6))
        with pytest.raises(RuntimeError, match="memory"):
            x[1:].copy_(x[:-1])


# Memory


def test_memory_is_not_reused_before_the_work_that_uses_it_is_done() -> None:
    x = torch.full((1024,), 7.0, device="neuron")
    small = ones()
    learn(lambda: torch.zeros(1024, device="neuron") + 1)
    side = torch.neuron.Stream()
    with side:
        gate(small)
        y = x + 1
    address = x.data_ptr()
    x.record_stream(side)
    del x
    others = [torch.zeros(1024, device="neuron") for _ in range(4)]
    assert all(other.data_ptr() != address for other in others)
    gates[0].set()
    side.synchronize()
    assert y.eq(8).all().item()


def test_memory_that_only_the_queue_holds_is_waited_for_before_there_is_none() -> None:
    torch.neuron.empty_cache()
    x = torch.zeros(2**20, device="neuron")  # 4 MiB
    learn(lambda: x + 1)
    torch.neuron.empty_cache()
    torch.neuron.set_memory_limit(torch.neuron.memory_reserved() + 10 * 2**20)
    try:
        for _ in range(20):
            x + 1
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(2**23, device="neuron")
    finally:
        torch.neuron.set_memory_limit(0)


def test_statistics_are_read_when_the_queue_is_empty() -> None:
    x = ones(1000)
    learn(lambda: x + 1)
    before = torch.neuron.memory_allocated()
    for _ in range(50):
        x + 1
    assert torch.neuron.memory_allocated() == before
    calls = {row["op"]: row["calls"] for row in torchneuron_backend.op_counters()}
    assert calls["aten::add.Tensor"] == 51


def test_time_spent_waiting_for_the_queue_is_not_the_kernels() -> None:
    x = ones()
    for read in (lambda: x[0].item(), x.cpu, lambda: x.nonzero(), lambda: torch.ops.neuron_tests.two(x)):
        read()
        torchneuron_backend.reset_op_counters()
        gates[0].clear()
        threading.Timer(0.3, gates[0].set).start()
        gate(x)
        read()
        rows = torchneuron_backend.op_counters()
        assert sum(row["ns"] for row in rows if row["op"] != "neuron_streams::gate") < 250e6


def test_resizing_waits_for_what_uses_the_memory() -> None:
    x = ones()
    learn(lambda: x + 1)
    threading.Timer(0.05, gates[0].set).start()
    gate(x)
    y = x + 1
    x.resize_(4096).fill_(3)
    assert y.tolist() == [2] * 4


# What watches


def test_a_kernel_is_traced_by_the_thread_that_launched_it() -> None:
    x = ones()
    learn(lambda: x * 2)
    torchneuron_backend.start_op_trace()
    gate(x)
    x * 2
    assert torchneuron_backend.take_op_trace() == [
        ("neuron_streams::gate", "float32", "native"),
        ("aten::mul.Tensor", "float32", "native"),
    ]


def test_the_profiler_shows_when_the_device_worked() -> None:
    x = ones(64, 64)
    learn(lambda: x.mm(x))
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as recorded:
        gate(ones())
        x.mm(x)
        gates[0].set()
    events = recorded.events() or ()
    kernels = [e for e in events if e.device_type == torch.autograd.DeviceType.PrivateUse1]
    assert {"neuron_streams::gate", "aten::mm"} <= {kernel.name for kernel in kernels}
    (call,) = [e for e in events if e.name == "aten::mm" and e.device_type == torch.autograd.DeviceType.CPU]
    (kernel,) = call.kernels
    assert kernel.name == "aten::mm"
    (ran,) = [k for k in kernels if k.name == "aten::mm"]
    assert ran.time_range.start >= call.time_range.end  # the gate was closed when the call returned


# The state of the thread that launches


def test_a_kernel_sees_the_state_of_the_thread_that_launched_it() -> None:
    def look(x: torch.Tensor, number: int) -> torch.Tensor:
        seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_num_threads()))
        return x + 1

    seen: list[tuple[bool, bool, int]] = []
    library = torch.library.Library("neuron_streams_state", "DEF")
    library.define("look(Tensor x, Scalar number) -> Tensor")
    library.impl("look", look, "CPU")
    _C.register_lowerings([("neuron_streams_state::look", FLOAT32)])
    x, threads = ones(), torch.get_num_threads()

    def states() -> list[tuple[bool, bool, int]]:
        seen.clear()
        torch.ops.neuron_streams_state.look(x, 0)
        with torch.no_grad():
            torch.ops.neuron_streams_state.look(x, 1)
        with torch.inference_mode():
            result = torch.ops.neuron_streams_state.look(x, 2)
            result.add_(1)
        assert result.is_inference()
        torch.set_num_threads(threads + 1)
        torch.ops.neuron_streams_state.look(x, 3)
        torch.set_num_threads(threads)
        torch.ops.neuron_streams_state.look(x, 4)
        torch.neuron.synchronize()
        return list(seen)

    states()
    before = launch.launched()
    ahead = states()
    assert launch.launched() - before >= 5
    launch.set_launch_blocking(True)
    assert ahead == states()


def test_modes_transforms_and_autocast_stay_with_the_caller() -> None:
    x = torch.randn(4, 4, device="neuron")

    def calls() -> list[torch.Tensor]:
        with torch.autocast("neuron", dtype=torch.bfloat16):
            product = x @ x
        with FlopCounterMode(display=False):
            counted = x @ x.t()
        mapped = torch.func.vmap(lambda row: (row * row).sum())(x)
        gradient = torch.func.grad(lambda y: (y.sin() * y).sum())(x)
        return [tensor.cpu() for tensor in (product, counted, mapped, gradient)]

    calls()
    ahead = calls()
    launch.set_launch_blocking(True)
    assert ahead[0].dtype == torch.bfloat16
    assert all(a.equal(b) for a, b in zip(ahead, calls(), strict=True))


def test_another_default_dtype_is_another_kind_of_call() -> None:
    x = torch.arange(4, device="neuron")
    learn(lambda: x / 2)
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert (x / 2).dtype == torch.bfloat16
    finally:
        torch.set_default_dtype(torch.float32)
    assert (x / 2).dtype == torch.float32


def test_64_bit_numbers_follow_the_policy_of_the_moment_of_launch() -> None:
    x = torch.tensor([2**31], device="neuron")
    learn(lambda: x + 1)
    numerics.set_64_bit_policy("32")
    try:
        wrapped = x + 1
    finally:
        numerics.set_64_bit_policy("exact")
    assert (wrapped.item(), (x + 1).item(), x.item()) == (1 - 2**31, 2**31 + 1, 2**31)


# Threads and processes


def test_many_threads_launch_at_once() -> None:
    totals: dict[int, list[float]] = {}

    def work(number: int) -> None:
        with torch.neuron.Stream(number % 2, priority=-(number % 3)):
            x = torch.full((8,), float(number), device=f"neuron:{number % 2}")
            for _ in range(300):
                x = x + 1
                x.mul_(1.0)
            totals[number] = x.tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert totals == {number: [number + 300.0] * 8 for number in range(8)}


def test_the_host_waits_when_the_queue_is_full() -> None:
    x = ones()
    learn(lambda: x + 1)
    threading.Timer(0.05, gates[0].set).start()
    gate(x)
    for _ in range(3000):
        y = x + 1
    assert y.tolist() == [2] * 4


RUN = "import torch; x = torch.ones(300, 300, device='neuron')\nfor _ in range(400): y = x.mm(x)\n"


def test_the_interpreter_ends_with_work_queued() -> None:
    done = run_python(RUN + "print(torch.neuron.current_stream().query())", NEURON_LAUNCH_BLOCKING="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_an_error_nobody_waited_for_is_told_at_the_end() -> None:
    code = (
        "from torchneuron_backend import faults; import torch; x = torch.ones(2, 2, device='neuron')\n"
        "x.mm(x); faults.set('aten::mm', 'error'); x.mm(x)"
    )
    done = run_python(code, NEURON_LAUNCH_BLOCKING="0")
    assert done.returncode == 0
    assert "aten::mm failed on neuron:0 in the default stream" in done.stderr


FORK = (
    RUN
    + """
import os
pid = os.fork()
if pid == 0:
    try:
        del y
        print(len(str(torch.ones(1, device='neuron'))))
    except RuntimeError as error:
        print(error, flush=True)
        raise SystemExit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), y[0, 0].item())
"""
)


def test_a_fork_is_refused_the_device_and_ends_all_the_same() -> None:
    done = run_python(FORK, NEURON_LAUNCH_BLOCKING="0")
    refusal, result = done.stdout.splitlines()
    assert refusal.startswith("Cannot re-initialize the neuron device in a forked subprocess"), done.stderr
    assert result == "3 300.0"


def test_blocking_launch_is_the_default_and_the_variable_says_otherwise() -> None:
    code = "import torch; from torchneuron_backend import launch; print(launch.is_launch_blocking())"
    for value, printed in (("", "True"), ("1", "True"), ("0", "False")):
        done = run_python(code, NEURON_LAUNCH_BLOCKING=value)
        assert done.stdout.split() == [printed], done.stderr
    done = run_python(code, NEURON_LAUNCH_BLOCKING="yes")
    assert done.returncode != 0
    sentence = "NEURON_LAUNCH_BLOCKING is 'yes': use 1 for blocking launch or 0 for asynchronous launch."
    assert sentence in done.stderr


def test_going_back_to_blocking_launch_waits() -> None:
    threading.Timer(0.05, gates[0].set).start()
    y = gate(ones())
    launch.set_launch_blocking(True)
    assert passed == [0]
    before = launch.launched()
    gates[1].set()
    gate(y, 1)
    assert launch.launched() == before
    assert passed == [0, 1]
