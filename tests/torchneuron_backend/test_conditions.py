"""Lowerings on a condition: the device decides call by call, as the probe does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchneuron_backend
from torchneuron_backend import _C
from torchneuron_backend.probe.conditions import CONDITIONS

LIBRARY = torch.library.Library("neuron_conditions", "DEF")
EVERY = (1 << 60) - 1
for _name in CONDITIONS:
    LIBRARY.define(f"{_name}(Tensor x, Tensor?[] many, Tensor? more=None) -> Tensor")
    LIBRARY.impl(_name, lambda x, many, more=None: x + 1, "CPU")
_C.register_lowerings([], [(f"neuron_conditions::{name}", EVERY, name) for name in CONDITIONS])

EXAMPLES: dict[str, tuple[Any, ...]] = {
    "small": (torch.ones(3), [torch.zeros(2, dtype=torch.int64), None]),
    "mask": (torch.ones(3), [None, torch.ones(3, dtype=torch.bool)]),
    "byte mask": (torch.ones(3), [torch.ones(3, dtype=torch.uint8)]),
    "a mask that is no index": (torch.ones(3, dtype=torch.bool), []),
    "tall": (torch.ones(200, 16), []),
    "17 by 17": (torch.ones(2, 17, 17), []),
    "128 by 200": (torch.ones(128, 200), []),
    "129 by 129": (torch.ones(129, 129), []),
    "another matrix": (torch.ones(2), [], torch.ones(130, 130)),
}


def runs_native(name: str, args: tuple[Any, ...]) -> bool:
    torchneuron_backend.reset_op_counters()
    on_device = torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("neuron"), args)
    getattr(torch.ops.neuron_conditions, name)(*on_device)
    rows = [row for row in torchneuron_backend.op_counters() if row["op"] == f"neuron_conditions::{name}"]
    assert len(rows) == 1
    return bool(rows[0]["route"] == "native")


@pytest.mark.parametrize("name", CONDITIONS)
def test_device_and_probe_agree_on_what_a_condition_is(name: str) -> None:
    found = {each: runs_native(name, args) for each, args in EXAMPLES.items()}
    assert found == {each: CONDITIONS[name](args, {}) for each, args in EXAMPLES.items()}
    assert set(found.values()) == {True, False}


def test_an_unknown_condition_is_refused() -> None:
    with pytest.raises(RuntimeError, match="unknown condition 'on_sundays'"):
        _C.register_lowerings([], [("aten::mm", 1, "on_sundays")])


def routes(op: str) -> set[str]:
    return {row["route"] for row in torchneuron_backend.op_counters() if row["op"] == op}


def test_indices_are_native_and_masks_fall_back() -> None:
    x = torch.arange(6.0, device="neuron").reshape(2, 3)
    rows, mask = torch.tensor([1, 0], device="neuron"), x > 2
    torchneuron_backend.reset_op_counters()
    assert x[rows].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert routes("aten::index.Tensor") == {"native"}
    torchneuron_backend.reset_op_counters()
    assert x[mask].tolist() == [3, 4, 5]
    assert routes("aten::index.Tensor") == {"fallback"}


def test_what_is_native_on_a_condition_is_not_native_for_every_call() -> None:
    assert not torchneuron_backend.is_native("aten::index.Tensor", torch.float32)


def test_a_kernel_of_the_devices_own_that_runs_boxed_follows_the_table() -> None:
    torchneuron_backend.reset_op_counters()
    torch.histc(torch.ones(4, device="neuron"), 3)
    assert routes("aten::histc") == {"native"}


def test_what_writes_in_the_middle_of_its_arguments_follows_its_functional_form() -> None:
    x, mean, var = torch.randn(2, 3, 4), torch.zeros(3), torch.ones(3)
    moved = [each.to("neuron") for each in (mean, var)]
    torchneuron_backend.reset_op_counters()
    out = torch.ops.aten._native_batch_norm_legit(x.to("neuron"), None, None, *moved, True, 0.1, 1e-5)[0]
    assert routes("aten::_native_batch_norm_legit") == {"native"}
    expected = torch.ops.aten._native_batch_norm_legit(x, None, None, mean, var, True, 0.1, 1e-5)[0]
    torch.testing.assert_close(out.cpu(), expected)
    torch.testing.assert_close(moved[0].cpu(), mean)


def test_reading_errors_of_linear_algebra_is_no_fallback() -> None:
    torchneuron_backend.reset_op_counters()
    torch.linalg.cholesky(2.0 * torch.eye(3, device="neuron"))
    assert [r["op"] for r in torchneuron_backend.op_counters() if r["route"] == "fallback"] == []
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        torch.linalg.cholesky(-torch.eye(3, device="neuron"))
