"""What torch.profiler shows: native work as kernels of the device, fallbacks by the mark torch's leaves."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

import torchneuron_backend
from harness.devices.shadow import ShadowRecorder
from torchneuron_backend import launch

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def kernels(recorded: profile) -> list[tuple[str, int]]:
    return [
        (event.name, event.device_index)
        for event in recorded.events() or ()
        if event.device_type == DeviceType.PrivateUse1
    ]


def call_named(recorded: profile, name: str) -> Any:
    """The one call of ``name`` on the host that is not part of another."""
    events = [e for e in recorded.events() or () if e.name == name and e.device_type == DeviceType.CPU]
    (found,) = [e for e in events if e.cpu_parent is None or e.cpu_parent.name != name]
    return found


def test_native_work_is_a_kernel_below_the_call_that_caused_it() -> None:
    x = torch.ones(64, 64, device="neuron:1")
    with profile(activities=BOTH) as recorded:
        x.mm(x)
    assert kernels(recorded) == [("aten::mm", 1)]
    call = call_named(recorded, "aten::mm")
    assert [kernel.name for kernel in call.kernels] == ["aten::mm"]
    assert 0 < call.device_time_total <= call.time_range.elapsed_us()


def test_a_fallback_is_no_work_of_the_device_and_leaves_its_mark() -> None:
    x = torch.ones(4, device="neuron")
    with profile(activities=BOTH) as recorded:
        torch.ops.neuron_tests.two(x)
    assert kernels(recorded) == []
    call = call_named(recorded, "neuron_tests::two")
    assert "aten::_to_cpu" in [child.name for child in call.cpu_children]


def test_a_factory_that_falls_back_leaves_its_mark_too() -> None:
    assert not torchneuron_backend.is_native("aten::linspace", torch.float64)
    with profile(activities=BOTH) as recorded:
        torch.linspace(0, 1, 5, dtype=torch.float64, device="neuron")
    assert kernels(recorded) == []
    assert "aten::_to_cpu" in [child.name for child in call_named(recorded, "aten::linspace").cpu_children]


def test_copies_are_work_of_the_device() -> None:
    with profile(activities=BOTH) as recorded:
        torch.ones(4).to("neuron:1").cpu()
    assert kernels(recorded) == [("aten::_copy_from", 1)] * 2


def test_nothing_of_the_device_is_recorded_unless_asked_for() -> None:
    x = torch.ones(4, device="neuron")
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        x + x
    assert kernels(recorded) == []
    assert call_named(recorded, "aten::add").device_time_total == 0


def test_one_profile_ends_before_the_next_begins() -> None:
    x = torch.ones(4, device="neuron")
    for _ in range(2):
        with profile(activities=BOTH) as recorded:
            x + x
        x * x  # between two profiles
        assert kernels(recorded) == [("aten::add.Tensor", 0)]


def test_other_threads_and_backward_are_seen() -> None:
    x = torch.ones(4, device="neuron", requires_grad=True)
    y = x.detach()
    with profile(activities=BOTH) as recorded:
        thread = threading.Thread(target=lambda: y.mul(y))
        thread.start()
        thread.join()
        x.sin().sum().backward()
    names = [name for name, _ in kernels(recorded)]
    assert {"aten::mul.Tensor", "aten::sin", "aten::sum", "aten::cos"} <= set(names)


def test_a_trace_file_has_the_device_s_own_row(tmp_path: Path) -> None:
    x = torch.ones(4, device="neuron")
    with profile(activities=BOTH) as recorded:
        x + x
    recorded.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (kernel,) = [e for e in events if e.get("cat") == "kernel"]
    (call,) = [e for e in events if e.get("cat") == "cpu_op" and e["name"] == "aten::add"]
    assert kernel["name"] == "aten::add.Tensor"
    assert call["ts"] <= kernel["ts"] <= kernel["ts"] + kernel["dur"]
    if launch.is_launch_blocking():
        assert kernel["ts"] + kernel["dur"] <= call["ts"] + call["dur"]


def test_a_recorder_for_devices_that_cannot_count_agrees_with_the_counters() -> None:
    x = torch.rand(8, 8, device="neuron")
    wide = x.double()  # a dtype in which no operator is native
    x.mm(x)
    wide.lgamma()
    torchneuron_backend.reset_op_counters()
    with ShadowRecorder() as shadow:
        x.mm(x)
        wide.lgamma()
        torch.nn.functional.linear(x, x).exp()
    seen = {call.executed: call for call in shadow.calls()}
    assert {name for name, call in seen.items() if call.fallback_calls} == {"aten::lgamma"}
    assert {"aten::mm", "aten::linear", "aten::exp"} == {
        name for name, call in seen.items() if call.device_calls
    }
    counted = {row["op"] for row in torchneuron_backend.op_counters() if row["route"] == "fallback"}
    assert counted == {"aten::lgamma"}


def test_the_profiler_without_kineto_times_device_work_by_events(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.rand(300, 300, device="neuron:1", requires_grad=True)
    with (
        torch.neuron.device(1),
        torch.autograd.profiler.profile(use_device="neuron", use_kineto=False) as recorded,
        record_function("both"),
    ):
        (x @ x).sum().backward()
    (product,) = [row for row in recorded.key_averages() if row.key == "aten::matmul"]
    (whole,) = [row for row in recorded.key_averages() if row.key == "both"]
    assert 0 < product.device_time_total < whole.device_time_total
    assert "aten::matmul" in recorded.key_averages().table(sort_by="device_time_total")
    assert "Exception in RecordFunction" not in capfd.readouterr().err


@pytest.mark.parametrize("use_kineto", [True, False])
def test_an_error_inside_ends_the_profile_and_leaves_the_profiler_usable(use_kineto: bool) -> None:
    def fail(profiler: torch.autograd.profiler.profile) -> None:
        with profiler:
            torch.ones(2, device="neuron").add(1)
            raise ValueError("inside")

    for _ in range(2):
        recorded = torch.autograd.profiler.profile(use_device="neuron", use_kineto=use_kineto)
        with pytest.raises(ValueError, match="inside"):
            fail(recorded)
        assert "aten::add" in {event.name for event in recorded.function_events}
