"""What torch.profiler sees of the device."""

from __future__ import annotations

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from suites.claims.checks import find_name, numbers, require
from suites.claims.claim import Source, Subject, Topic

topic = Topic("profiler", recorded=False)  # a device without counters is recorded by the profiler itself


@topic.claim(
    "torch.profiler with CPU and PrivateUse1 activities shows the device's work beside the host's.",
    Source.DOCUMENTATION,
)
def shows_device_work(subject: Subject) -> None:
    x = numbers(64, 64).to(subject.name)
    torch.accelerator.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as recorded:
        x.mm(x)
        torch.accelerator.synchronize()
    events = recorded.events() or ()
    host = [event for event in events if event.device_type == DeviceType.CPU and event.name == "aten::mm"]
    device = [event for event in events if event.device_type == DeviceType.PrivateUse1]
    require(bool(host), "the call of mm on the host is not there")
    require(bool(device), "nothing of the device is there")
    times = [event.time_range.elapsed_us() for event in device]
    require(max(times) > 0, f"the device's work took no time: {times}")


@topic.claim("NeuronConfig takes the modes DEVICE, RUNTIME, CPU_UTIL and HOST_MEMORY.", Source.DOCUMENTATION)
def profile_modes(subject: Subject) -> None:
    config = find_name(subject, "NeuronConfig", "profiler", "profiling")
    mode = find_name(subject, "ProfileMode", "profiler", "profiling")
    modes = [getattr(mode, name, None) for name in ("DEVICE", "RUNTIME", "CPU_UTIL", "HOST_MEMORY")]
    require(None not in modes, f"ProfileMode has only {[m for m in dir(mode) if m.isupper()]}")
    config(modes=modes)
