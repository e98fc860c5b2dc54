"""Compares two results: trees of tensors and numbers, the device's and the reference's.

Structure, shape, dtype and device come before values. Tensors are compared whole, never element
by element in Python. A comparison that had nothing to compare (empty output, or NaN throughout
on both sides) is ``vacuous`` and never a pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from results.vocabulary import Outcome
from suites.device import Tolerance
from suites.values import EXACT, Measured, dtype_name, measure

ToleranceOf = Callable[[str], Tolerance]

_NUMBERS = (bool, int, float, complex)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The judgement of two results.

    Attributes:
        outcome: ``passed``, ``failed_numeric`` or ``vacuous``.
        message: ``""`` for a pass, else what differs first, with the worst element.
        metrics: ``max_abs_error``, ``max_rel_error`` (over elements finite on both sides),
            ``compared`` and ``mismatched`` elements.
    """

    outcome: Outcome
    message: str
    metrics: Mapping[str, float]


@dataclasses.dataclass(slots=True)
class _Tally:
    """What the leaves seen so far added up to."""

    informative: int = 0
    compared: int = 0
    mismatched: int = 0
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    problems: list[str] = dataclasses.field(default_factory=list)

    def add(self, measured: Measured) -> None:
        self.informative += measured.informative
        self.compared += measured.compared
        self.mismatched += measured.mismatched
        self.max_abs_error = max(self.max_abs_error, measured.max_abs_error)
        self.max_rel_error = max(self.max_rel_error, measured.max_rel_error)

    def metrics(self) -> dict[str, float]:
        return {
            "max_abs_error": self.max_abs_error,
            "max_rel_error": self.max_rel_error,
            "compared": float(self.compared),
            "mismatched": float(self.mismatched),
        }


def compare(
    actual: Any,
    expected: Any,
    tolerance_of: ToleranceOf,
    *,
    name: str = "output",
    device: str | None = None,
    values: bool = True,
    scalar_dtype: str = "float64",
) -> Comparison:
    """Compare a device's result with the reference's.

    Args:
        actual: what the device gave: a tensor, a number, or sequences, mappings and dataclasses of them.
        expected: what the reference gave.
        tolerance_of: bounds by the name of the dtype, e.g. ``float32``; integers and booleans are exact.
        name: what messages call the root.
        device: device type that every tensor of ``actual`` must be on; ``None`` leaves it unchecked.
        values: whether values are compared; without, only structure, shape, dtype and device are.
        scalar_dtype: the dtype whose tolerance Python floats are held to.
    """
    tally = _Tally()
    for path, one, two in _leaves(actual, expected, name):
        if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
            problem = _metadata_problem(one, two, device)
            if problem:
                tally.problems.append(f"{path}: {problem}")
            else:
                _compare_tensors(path, one, two, tolerance_of, values, tally)
        else:
            _compare_scalars(path, one, two, tolerance_of(scalar_dtype), values, tally)
    return _judge(tally, name)


def _judge(tally: _Tally, name: str) -> Comparison:
    if tally.problems:
        more = len(tally.problems) - 1
        message = tally.problems[0] + (f" (and {more} more differences)" if more else "")
        return Comparison(Outcome.FAILED_NUMERIC, message, tally.metrics())
    if not tally.informative:
        what = "NaN throughout, on both sides" if tally.compared else "empty"
        return Comparison(Outcome.VACUOUS, f"{name} is {what}: nothing was compared", tally.metrics())
    return Comparison(Outcome.PASSED, "", tally.metrics())


@dataclasses.dataclass(frozen=True, slots=True)
class _Mismatch:
    """A difference of structure; compares unequal to everything and prints as what it is."""

    text: str

    def __str__(self) -> str:
        return self.text


def _leaves(actual: Any, expected: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Walk two trees together; a difference of structure comes out as a leaf of two `_Mismatch`."""
    if isinstance(actual, torch.Tensor) != isinstance(expected, torch.Tensor):
        yield path, *_mismatch(_kind(actual), _kind(expected))
    elif isinstance(expected, torch.Tensor):
        yield path, actual, expected
    elif isinstance(expected, Mapping):
        if not isinstance(actual, Mapping) or list(actual) != list(expected):
            yield path, *_mismatch(_keys(actual), _keys(expected))
            return
        for key in expected:
            yield from _leaves(actual[key], expected[key], f"{path}.{key}")
    elif isinstance(expected, Sequence) and not isinstance(expected, (str, bytes)):
        if not isinstance(actual, type(expected)) or len(actual) != len(expected):
            yield path, *_mismatch(_length(actual), _length(expected))
            return
        for index, (one, two) in enumerate(zip(actual, expected, strict=True)):
            yield from _leaves(one, two, f"{path}[{index}]")
    elif dataclasses.is_dataclass(expected) and not isinstance(expected, type):
        if type(actual) is not type(expected):
            yield path, *_mismatch(_kind(actual), _kind(expected))
            return
        for field in dataclasses.fields(expected):
            one, two = getattr(actual, field.name), getattr(expected, field.name)
            yield from _leaves(one, two, f"{path}.{field.name}")
    else:
        yield path, actual, expected


def _mismatch(actual: str, expected: str) -> tuple[_Mismatch, _Mismatch]:
    return _Mismatch(actual), _Mismatch(expected)


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


def _keys(value: Any) -> str:
    return f"a mapping with the keys {list(value)}" if isinstance(value, Mapping) else _kind(value)


def _length(value: Any) -> str:
    return f"{_kind(value)} of {len(value)}" if isinstance(value, Sequence) else _kind(value)


def _metadata_problem(actual: torch.Tensor, expected: torch.Tensor, device: str | None) -> str:
    """The first thing about two tensors, other than their values, that differs; ``""`` if none."""
    if actual.shape != expected.shape:
        return f"shape is {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if actual.dtype != expected.dtype:
        return f"dtype is {dtype_name(actual.dtype)}, expected {dtype_name(expected.dtype)}"
    if actual.layout != expected.layout:
        return f"layout is {actual.layout}, expected {expected.layout}"
    if device is not None and actual.device.type != device:
        return f"is on {actual.device.type}, expected on {device}"
    return ""


def _compare_scalars(
    path: str, actual: Any, expected: Any, tolerance: Tolerance, values: bool, tally: _Tally
) -> None:
    if not isinstance(expected, _NUMBERS) or not isinstance(actual, _NUMBERS):
        # None, strings, dtypes, …: equal or not, and never what makes a comparison worth something.
        if isinstance(expected, _Mismatch) or actual != expected:
            tally.mismatched += 1
            tally.problems.append(f"{path}: is {_shown(actual)}, expected {_shown(expected)}")
        return
    if type(actual) is not type(expected):
        tally.problems.append(f"{path}: is {_kind(actual)}, expected {_kind(expected)}")
        return
    if not isinstance(expected, int):  # an int, which may be wider than any dtype, is compared as it is
        dtype = torch.complex128 if isinstance(expected, complex) else torch.float64
        one, two = torch.tensor(actual, dtype=dtype), torch.tensor(expected, dtype=dtype)
        _compare_tensors(path, one, two, lambda _: tolerance, values, tally)
        return
    wrong = int(values and actual != expected)
    tally.add(Measured(compared=int(values), informative=1, mismatched=wrong, max_abs_error=float(wrong)))
    if wrong:
        tally.problems.append(f"{path}: is {actual}, expected {expected}")


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, _Mismatch) else repr(value)[:200]


def _compare_tensors(
    path: str,
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance_of: ToleranceOf,
    values: bool,
    tally: _Tally,
) -> None:
    if not values:
        tally.informative += expected.numel()
        return
    exact = not (expected.is_floating_point() or expected.is_complex())
    measured = measure(actual, expected, EXACT if exact else tolerance_of(dtype_name(expected.dtype)))
    tally.add(measured)
    if measured.message:
        tally.problems.append(f"{path}: {measured.message}")
