"""Comparing two results."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import OrderedDict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from results.vocabulary import Outcome
from suites.compare import compare
from suites.device import Tolerance

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.bool,
)
OTHERS = (torch.complex64, torch.complex128, torch.complex32, torch.float8_e4m3fn)


def bounds(rtol, atol):
    return lambda _dtype: Tolerance(rtol, atol)


EXACTLY = bounds(0.0, 0.0)
ABOUT = bounds(1e-3, 1e-3)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + OTHERS, ids=str)
def test_equal_tensors_pass_and_one_wrong_element_is_found_in_every_dtype(dtype):
    warnings.filterwarnings("ignore", message="ComplexHalf support is experimental")
    expected = torch.tensor([[1, 0, 1], [0, 1, 1]]).to(dtype)
    wrong = torch.tensor([[1, 0, 1], [0, 0, 1]]).to(dtype)
    same = compare(expected.clone(), expected, EXACTLY)
    assert (same.outcome, same.message, same.metrics["compared"]) == (
        Outcome.PASSED,
        "",
        expected.numel() * (2 if dtype.is_complex else 1),
    )
    different = compare(wrong, expected, EXACTLY)
    assert different.outcome is Outcome.FAILED_NUMERIC
    assert "worst at (1, 1)" in different.message
    assert different.metrics["max_abs_error"] == different.metrics["mismatched"] == 1


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=20),
    data=st.data(),
)
def test_agrees_with_assert_close_on_one_changed_element(values, data):
    """The bound is PyTorch's own, |actual - expected| <= atol + rtol * |expected|."""
    expected = torch.tensor(values, dtype=torch.float64)
    place = data.draw(st.integers(0, len(values) - 1))
    actual = expected.clone()
    actual[place] = data.draw(st.floats(width=64))
    found = compare(actual, expected, ABOUT).outcome
    try:
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)
    except AssertionError:
        assert found is Outcome.FAILED_NUMERIC
    else:
        assert found is Outcome.PASSED


@settings(max_examples=60, deadline=None)
@given(
    actual=st.lists(st.sampled_from([1.0, -1.0, math.nan, math.inf, -math.inf]), min_size=1, max_size=6),
    data=st.data(),
)
def test_nan_and_infinity_agree_only_with_themselves(actual, data):
    size = len(actual)
    values = st.sampled_from([1.0, -1.0, math.nan, math.inf, -math.inf])
    expected = data.draw(st.lists(values, min_size=size, max_size=size))
    pairs = list(zip(actual, expected, strict=True))
    same = all(one == two or (one != one and two != two) for one, two in pairs)
    all_nan = all(one != one and two != two for one, two in pairs)
    # However wide the bounds: two apart from two is within them, and a NaN or an infinity never.
    wide = bounds(10.0, 10.0)
    finite_apart = all(
        one == two or (math.isfinite(one) and math.isfinite(two)) or (one != one and two != two)
        for one, two in pairs
    )
    got = compare(torch.tensor(actual), torch.tensor(expected), EXACTLY).outcome
    got_wide = compare(torch.tensor(actual), torch.tensor(expected), wide).outcome
    assert got is (Outcome.VACUOUS if all_nan else Outcome.PASSED if same else Outcome.FAILED_NUMERIC)
    assert got_wide is (
        Outcome.VACUOUS if all_nan else Outcome.PASSED if finite_apart else Outcome.FAILED_NUMERIC
    )


@given(st.integers(min_value=-(2**70), max_value=2**70), st.integers(min_value=-(2**70), max_value=2**70))
def test_python_integers_of_any_size_are_exact(one, two):
    expected = Outcome.PASSED if one == two else Outcome.FAILED_NUMERIC
    assert compare(one, two, bounds(1.0, 1.0)).outcome is expected


def test_neighbouring_integers_that_are_one_float_are_told_apart():
    big = torch.tensor([2**60])
    got = compare(big + 1, big, bounds(1.0, 1.0))
    assert (got.outcome, got.metrics["max_abs_error"]) == (Outcome.FAILED_NUMERIC, 1.0)
    top = torch.tensor([2**64 - 1], dtype=torch.uint64)
    assert compare(top, top.clone(), EXACTLY).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("actual", "expected", "said"),
    [
        (torch.ones(2), torch.ones(3), "output: shape is (2,), expected (3,)"),
        (torch.ones(2), torch.ones(2, 1), "shape is (2,), expected (2, 1)"),
        (torch.ones(2), torch.ones(2).double(), "dtype is float32, expected float64"),
        (torch.ones(2).to_sparse(), torch.ones(2), "layout is torch.sparse_coo, expected torch.strided"),
        (torch.ones(2), [torch.ones(2)], "output: is a Tensor, expected a list"),
        ((torch.ones(2),), [torch.ones(2)], "is a tuple of 1, expected a list of 1"),
        ([torch.ones(2)], [torch.ones(2)] * 2, "is a list of 1, expected a list of 2"),
        ({"a": torch.ones(1)}, {"b": torch.ones(1)}, "keys ['a'], expected a mapping with the keys ['b']"),
        ([1, {"a": torch.ones(1)}], [1, {"a": torch.zeros(1)}], "output[1].a: 1 of 1 elements"),
        (1.0, torch.tensor(1.0), "output: is a float, expected a Tensor"),
        (1, 1.0, "is a int, expected a float"),
        (1.0, 1.5, "worst: 1.0, expected 1.5, off by 0.5"),
        (True, False, "is True, expected False"),
        (1j, 2j, "expected 2.0"),
        (None, torch.ones(1), "is a NoneType, expected a Tensor"),
        ("a", "b", "is 'a', expected 'b'"),
        (torch.float32, torch.int8, "is torch.float32, expected torch.int8"),
    ],
)
def test_every_difference_is_named(actual, expected, said):
    got = compare(actual, expected, EXACTLY)
    assert got.outcome is Outcome.FAILED_NUMERIC
    assert said in got.message


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    loss: float
    hidden: tuple[torch.Tensor, ...] | None = None


def test_trees_of_what_models_and_operators_return():
    sort = torch.sort(torch.tensor([3.0, 1.0]))
    assert compare(sort, torch.sort(torch.tensor([3.0, 1.0])), EXACTLY).outcome is Outcome.PASSED
    one, two = Output(torch.ones(2), 0.5, (torch.ones(1),)), Output(torch.ones(2), 0.5, (torch.zeros(1),))
    assert compare(one, one, EXACTLY).outcome is Outcome.PASSED
    got = compare(OrderedDict(out=one), OrderedDict(out=two), EXACTLY, name="model")
    assert got.message.startswith("model.out.hidden[0]: 1 of 1 elements")
    several = compare([torch.ones(1)] * 3, [torch.zeros(1)] * 3, EXACTLY)
    assert several.message.endswith("(and 2 more differences)")


@pytest.mark.parametrize(
    ("nothing", "why"),
    [
        (torch.ones(0, 3), "empty"),
        ([], "empty"),
        (None, "empty"),
        (torch.full((2,), math.nan), "NaN throughout"),
        ((torch.ones(0), math.nan), "NaN throughout"),
    ],
)
def test_nothing_to_compare_is_vacuous(nothing, why):
    got = compare(nothing, nothing, EXACTLY)
    assert got.outcome is Outcome.VACUOUS
    assert why in got.message
    assert compare([nothing, torch.ones(1)], [nothing, torch.ones(1)], EXACTLY).outcome is Outcome.PASSED


def test_a_result_on_the_wrong_device_fails_before_its_values():
    got = compare(torch.zeros(1), torch.ones(1), EXACTLY, device="meta")
    assert got.message == "output: is on cpu, expected on meta"
    assert compare(torch.zeros(1), torch.zeros(1), EXACTLY, device="cpu").outcome is Outcome.PASSED


def test_without_values_only_metadata_is_compared():
    one, two = torch.zeros(2), torch.ones(2)
    assert compare(one, two, EXACTLY, values=False).outcome is Outcome.PASSED
    assert compare([one, 1], [two, 2], EXACTLY, values=False).outcome is Outcome.PASSED
    assert compare(one, two.double(), EXACTLY, values=False).outcome is Outcome.FAILED_NUMERIC
    assert compare(one[:0], two[:0], EXACTLY, values=False).outcome is Outcome.VACUOUS


def test_the_tolerance_is_the_dtype_s_own():
    asked = []

    def tolerance(dtype):
        asked.append(dtype)
        return Tolerance(0.0, {"bfloat16": 1.0, "float32": 0.1, "float16": 0.01}[dtype])

    tree = [torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1), torch.zeros(1, dtype=torch.int8), 0.0]
    near = [tree[0] + 0.5, tree[1] + 0.05, tree[2], 0.005]
    assert compare(near, tree, tolerance, scalar_dtype="float16").outcome is Outcome.PASSED
    assert set(asked) == {"bfloat16", "float32", "float16"}
    assert compare([tree[0] + 2, *near[1:]], tree, tolerance, scalar_dtype="float16").message.startswith(
        "output[0]"
    )


def test_errors_are_measured_over_what_is_finite():
    actual = torch.tensor([1.5, math.nan, math.inf, 4.0])
    expected = torch.tensor([1.0, math.nan, math.inf, 5.0])
    got = compare(actual, expected, bounds(1.0, 1.0))
    assert got.outcome is Outcome.PASSED
    assert (got.metrics["max_abs_error"], got.metrics["max_rel_error"]) == (1.0, 0.5)


def test_non_contiguous_conjugated_and_sparse_tensors_are_compared_by_value():
    base = torch.arange(6.0).reshape(2, 3)
    assert compare(base.t(), base.t().contiguous(), EXACTLY).outcome is Outcome.PASSED
    complex_base = torch.complex(base, base)
    assert compare(complex_base.conj(), complex_base.conj().resolve_conj(), EXACTLY).outcome is Outcome.PASSED
    assert compare(complex_base.conj(), complex_base, EXACTLY).outcome is Outcome.FAILED_NUMERIC
    assert compare(base.to_sparse(), base.to_sparse(), EXACTLY).outcome is Outcome.PASSED
    assert compare((base * 2).to_sparse(), base.to_sparse(), EXACTLY).outcome is Outcome.FAILED_NUMERIC
