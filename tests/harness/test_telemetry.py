"""Attributing executed kernels to called ops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.telemetry import apportion, attribute
from results.events import OpCall


@given(st.integers(0, 10**12), st.lists(st.integers(0, 1000), min_size=1, max_size=8))
def test_parts_add_up_and_stay_within_one_of_their_share(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)
    assert sum(parts) == total
    assert all(part >= 0 for part in parts)
    whole = sum(weights)
    if whole:
        assert all(
            abs(part * whole - total * weight) < whole for part, weight in zip(parts, weights, strict=True)
        )


def test_equal_runs_are_attributed_exactly() -> None:
    measured = [
        OpCall(
            called="aten::add.out",
            executed="aten::add.out",
            dtype="float32",
            fallback_calls=5,
            fallback_ns=50,
        )
    ]
    paired = [
        OpCall(called="aten::add.Tensor", executed="aten::add.out", dtype="float32", fallback_calls=3),
        OpCall(called="aten::add_.Tensor", executed="aten::add.out", dtype="float32", fallback_calls=2),
    ]
    assert [(c.called, c.fallback_calls, c.fallback_ns) for c in attribute(measured, paired)] == [
        ("aten::add.Tensor", 3, 30),
        ("aten::add_.Tensor", 2, 20),
    ]


def test_a_kernel_nobody_was_seen_to_call_keeps_its_name() -> None:
    measured = [OpCall(called="aten::mm", executed="aten::mm", dtype="float32", device_calls=2)]
    assert attribute(measured, []) == tuple(measured)


def test_dtypes_are_kept_apart() -> None:
    measured = [OpCall(called="aten::mm", executed="aten::mm", dtype="bfloat16", device_calls=1)]
    paired = [OpCall(called="aten::linear", executed="aten::mm", dtype="float32", device_calls=9)]
    assert attribute(measured, paired)[0].called == "aten::mm"
