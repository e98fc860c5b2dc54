"""Queued work as its caller sees it: traces, times, and the modes and settings of the launching thread."""

import threading

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import torchneuron_backend
from tests.torchneuron_backend.asynchronous.work import FLOAT32, gate, gates, learn, ones
from torchneuron_backend import _C, launch, numerics


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


def test_a_profile_has_no_work_that_was_launched_before_it() -> None:
    x = ones()
    learn(lambda: x * 2)
    gate(x)
    x * 2
    threading.Timer(0.3, gates[0].set).start()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as recorded:
        torch.neuron.synchronize()
    assert [e.name for e in recorded.events() or () if e.device_type == DeviceType.PrivateUse1] == []


def test_a_caller_that_traces_through_the_python_dispatcher_is_not_followed_into_the_queue() -> None:
    x = ones()
    learn(lambda: x * 2)
    with enable_python_dispatcher():
        doubled = x * 2
    torch.neuron.synchronize()
    assert doubled.cpu().tolist() == (x.cpu() * 2).tolist()


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
