"""How the device is called and found, and the names that a program may use on it."""

from __future__ import annotations

import torch

from suites.claims.checks import (
    device_module,
    fallen_back,
    find_name,
    host_only_operator,
    numbers,
    require,
    require_equal,
)
from suites.claims.claim import Scope, Source, Subject, Topic

topic = Topic("names", recorded=False)


@topic.claim(
    "import torch alone makes the device usable.", Source.DOCUMENTATION, scope=Scope.ACCELERATOR, fresh={}
)
def loaded_with_torch(subject: Subject) -> None:
    require(hasattr(torch, subject.name), f"torch.{subject.name} does not exist after import torch")
    require_equal(subject, torch.ones(3, device=subject.name) + 1, torch.full((3,), 2.0), "1 + 1")


@topic.claim("The device is torch's PrivateUse1 device under a name of its own.", Source.DOCUMENTATION)
def is_privateuse1(subject: Subject) -> None:
    named = torch._C._get_privateuse1_backend_name()
    require(named == subject.name, f"PrivateUse1 is called {named!r}")
    keys = torch._C._dispatch_keys(torch.empty(1, device=subject.name))
    require(keys.has(torch._C.DispatchKey.PrivateUse1), f"a tensor of it has the keys {keys}")


@topic.claim(
    "torch.accelerator works on it unmodified.", Source.DOCUMENTATION, scope=Scope.ACCELERATOR, recorded=True
)
def torch_accelerator(subject: Subject) -> None:
    accelerator = torch.accelerator
    require(accelerator.is_available(), "torch.accelerator.is_available() is false")
    count, before = accelerator.device_count(), accelerator.current_device_index()
    require(0 <= before < count, f"the current device is {before} of {count}")
    for index in range(count):
        with accelerator.device_index(index):
            made = torch.ones(2, device=subject.name)
        require(made.device.index == index, f"under device_index({index}) a tensor was made on {made.device}")
    after = accelerator.current_device_index()
    require(after == before, f"device_index() left {after} current, not {before}")
    allocated = accelerator.memory_allocated()
    kept = torch.ones(1 << 20, device=subject.name)
    grown = accelerator.memory_allocated() - allocated
    require(grown >= kept.nbytes, f"memory_allocated() grew by {grown} for {kept.nbytes} bytes")
    accelerator.synchronize()


@topic.claim(
    "torch.<device>.synchronize() waits for what has been launched.",
    Source.DOCUMENTATION,
    scope=Scope.ACCELERATOR,
    recorded=True,
)
def synchronize(subject: Subject) -> None:
    x = torch.eye(256, device=subject.name)
    for _ in range(50):
        x = x @ x
    device_module(subject).synchronize()
    require(torch.accelerator.current_stream().query(), "work was left on the current stream")


@topic.claim(
    "get_executed_ops() is the set of the names of operators that ran; clear_op_tracking() empties it.",
    Source.USERS,
)
def tracks_executed_operators(subject: Subject) -> None:
    clear, executed = (find_name(subject, name) for name in ("clear_op_tracking", "get_executed_ops"))
    x = numbers(4, 4).to(subject.name)
    torch.accelerator.synchronize()
    clear()
    require(not executed(), f"after clear_op_tracking() there are {sorted(executed())}")
    for _ in range(3):
        x.mm(x)
    torch.accelerator.synchronize()
    ran = executed()
    require(all(isinstance(name, str) for name in ran), f"it holds more than names: {ran!r}")
    require(len(ran) == len(set(ran)), f"three calls of one operator stand there more than once: {ran!r}")
    require(any("mm" in name for name in ran), f"mm ran, and the names are {sorted(ran)}")


@topic.claim("get_fallback_ops() names the operators that fell back to the CPU, and no others.", Source.USERS)
def tracks_fallen_back_operators(subject: Subject) -> None:
    x = numbers(4, 4).to(subject.name)
    with host_only_operator() as operator:
        fallen = fallen_back(subject, lambda: operator(x.mm(x)))
    require(any("double_on_host" in name for name in fallen), f"it names {sorted(fallen)}")
    require(not any(name.startswith("aten::mm") for name in fallen), f"mm is among {sorted(fallen)}")
    left = set(fallen) - set(find_name(subject, "get_executed_ops")())
    require(not left, f"{sorted(left)} fell back and did not run")
