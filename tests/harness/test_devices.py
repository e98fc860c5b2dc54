"""Device adapters against the devices themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import torchneuron_backend
from harness import devices
from harness.devices.shadow import ShadowRecorder
from harness.errors import DeviceError, UsageError
from results.calls import merge
from results.events import OpCall
from results.operators import ROLES
from results.vocabulary import Outcome


def test_the_adapters_of_this_package_are_announced() -> None:
    assert {"neuron", "cpu", "cuda"} <= set(devices.names())


@pytest.mark.parametrize("name", ["neuron", "cpu"])
def test_a_present_device_is_described(name: str) -> None:
    found = devices.describe(name)
    assert found.available
    assert found.count >= 1
    assert found.versions["torch"] == torch.__version__
    devices.require(found)


def test_an_absent_device_is_described_and_refused() -> None:
    found = devices.describe("mps")
    assert not found.available
    with pytest.raises(DeviceError, match="mps"):
        devices.require(found)


def test_a_name_that_cannot_be_a_device_is_refused() -> None:
    with pytest.raises(UsageError, match="not a device type"):
        devices.get("../x")


def test_a_recorded_context_holds_its_own_calls_only() -> None:
    device = devices.get("neuron")
    x = torch.ones(3, 3, device="neuron")
    x + x
    with device.record() as recorder:
        x @ x
    computing = [c for c in recorder.calls() if c.executed not in ROLES]
    assert [(c.executed, c.dtype, c.device_calls) for c in computing] == [("aten::mm", "float32", 1)]
    assert computing[0].device_ns > 0


def test_pairing_names_the_op_the_program_called() -> None:
    x = torch.rand(4, device="neuron")
    with devices.get("neuron").record(pair=True) as recorder:
        torch.special.airy_ai(x)
    (call,) = [c for c in recorder.calls() if c.executed not in ROLES]
    assert (call.called, call.fallback_calls) == ("aten::special_airy_ai", 1)


def test_pairing_lets_higher_order_operators_pass() -> None:
    x = torch.ones(3, device="neuron")
    with devices.get("neuron").record(pair=True) as recorder:
        y = torch.cond(torch.tensor(True), lambda a: a.sin(), lambda a: a.cos(), (x,))
    assert torch.equal(y.cpu(), torch.ones(3).sin())
    assert [call.executed for call in recorder.calls()] == ["aten::sin"]


def test_every_kernel_that_does_not_compute_is_known_to_the_store() -> None:
    torchneuron_backend.reset_op_counters()
    x = torch.ones(4, 4).to("neuron")
    y = x[1:].view(-1, 2).t().expand(2, 2, 6).to("neuron:1").cpu()
    assert y.sum().item() == 24
    x.resize_(2, 2).set_(x)
    torch.view_as_real(torch.ones(2, dtype=torch.complex64, device="neuron"))
    x.unfold(0, 1, 1)
    kinds = {row["op"]: row["kind"] for row in torchneuron_backend.op_counters()}
    assert {"copy", "meta", "compute"} >= set(kinds.values())
    assert {op for op, kind in kinds.items() if kind != "compute"} <= set(ROLES)


@pytest.fixture
def copying_kernel() -> Iterator[None]:
    """A kernel for ``neuron`` that does what PyTorch's own CPU fallback does, as the profiler sees it."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        (host,) = torch.ops.aten._to_cpu([x])
        return torch.special.airy_ai(host).to(x.device)

    library = torch.library.Library("aten", "IMPL")
    library.impl("special_airy_ai", kernel, "PrivateUse1")
    yield
    library._destroy()


@pytest.mark.usefixtures("copying_kernel")
def test_a_fallback_leaves_its_shadow_in_the_profiler() -> None:
    x = torch.rand(4, device="neuron")
    with ShadowRecorder() as recorder:
        torch.special.airy_ai(x)
        x.view(2, 2)
    calls = {call.called: call for call in recorder.calls()}
    assert calls["aten::special_airy_ai"].fallback_calls == 1
    assert calls["aten::view"].device_calls == 1


def test_exceptions_are_told_apart() -> None:
    device = devices.get("neuron")
    assert device.classify(torch.OutOfMemoryError("x")) is Outcome.OUT_OF_MEMORY
    assert device.classify(NotImplementedError("x")) is Outcome.UNSUPPORTED
    assert device.classify(RuntimeError("x")) is Outcome.FAILED_EXCEPTION


def test_a_graph_that_does_not_lower_is_unsupported_through_dynamo() -> None:
    device = devices.get("neuron")
    function = torch.compile(torch.special.airy_ai, backend="neuron", dynamic=False)
    with pytest.raises(Exception, match="airy_ai") as caught:
        function(torch.rand(4, device="neuron"))
    assert device.classify(caught.value) is Outcome.UNSUPPORTED


def test_merging_adds_what_is_equal_and_sorts() -> None:
    one = OpCall(called="b", executed="b", dtype="float32", device_calls=1, device_ns=5)
    other = OpCall(called="a", executed="b", dtype="float32", fallback_calls=2)
    assert merge([one, other, one]) == (
        other,
        OpCall(called="b", executed="b", dtype="float32", device_calls=2, device_ns=10),
    )
