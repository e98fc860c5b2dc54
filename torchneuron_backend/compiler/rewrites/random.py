"""What random operators make of the generator's numbers: the CPU's results, from the CPU's numbers.

The numbers are MT19937's, 32 bits each; `mersenne` draws them. What is made of them is that of
ATen/core/DistributionsHelper.h and TransformationHelper.h. (Where torch draws with MKL, on Intel processors,
some numbers are MKL's: the probe says what holds where it runs.)

Compiled graphs leave random operators to the device, which has the generator; these are for programs of one
operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .registry import aten

_DIGITS = 24
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
# From here on the CPU draws 64 bits for a whole number.
_WIDEST = 1 << 28


@dataclass(frozen=True)
class Drawing:
    """A random operator: ``each`` numbers for each element of its first argument, and ``values(numbers,
    *arguments)``, from int64 [each * elements] what the operator returns; for arguments that ``covers``
    takes.
    """

    each: int
    covers: Callable[..., bool]
    values: Callable[..., Any]


RANDOM: dict[Any, Drawing] = {}


def numbers_drawn(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """How many numbers ``overload(*args, **kwargs)`` draws; 0 where no rewrite covers it.

    ``kwargs`` may have a generator, which decides on nothing here.
    """
    drawing = RANDOM.get(overload)
    if drawing is None:
        return 0
    x, named = args[0], without_generator(kwargs)
    # Elements that lie otherwise are drawn in the order in which they lie.
    if not x.is_contiguous() or not drawing.covers(*args, **named):
        return 0
    return drawing.each * int(x.numel())


def without_generator(kwargs: dict[str, Any]) -> dict[str, Any]:
    """``kwargs`` but for the generator."""
    return {name: value for name, value in kwargs.items() if name != "generator"}


def _mask(value: int) -> torch.Tensor:
    return torch.full([1], value, dtype=torch.int64)


def _uniform(numbers: torch.Tensor) -> torch.Tensor:
    """float32 in [0, 1)."""
    return (numbers & _mask((1 << _DIGITS) - 1)).to(torch.float32) * 2.0**-_DIGITS


def _uniform_double(numbers: torch.Tensor) -> torch.Tensor:
    pairs = numbers.reshape(-1, 2)
    high = (pairs[:, 0] & _mask((1 << 21) - 1)).to(torch.float64)
    return (high * 2.0**32 + pairs[:, 1].to(torch.float64)) * 2.0**-53


def _always(*_: Any, **__: Any) -> bool:
    return True


def _is_float(x: torch.Tensor, *_: Any, **__: Any) -> bool:
    return x.dtype in _FLOATS


def _drawn(
    overload: Any, each: int, covers: Callable[..., bool] = _always
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of numbers, tensor and arguments that returns its values, flat."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def shaped(numbers: torch.Tensor, x: torch.Tensor, *args: Any, **named: Any) -> torch.Tensor:
            values: torch.Tensor = function(numbers, x, *args, **named)
            return values.reshape(x.shape).to(x.dtype)

        RANDOM[overload] = Drawing(each, covers, shaped)
        return function

    return register


@_drawn(aten.uniform.default, 1, _is_float)
def _uniform_between(
    numbers: torch.Tensor, x: torch.Tensor, start: float = 0.0, end: float = 1.0
) -> torch.Tensor:
    rounded = (_uniform(numbers) * (end - start) + start).to(x.dtype)
    # The end is no part of the interval, even where rounding leads there.
    return torch.where(rounded == end, torch.full_like(rounded, start), rounded)


@_drawn(aten.bernoulli.p, 2)
def _bernoulli(numbers: torch.Tensor, x: torch.Tensor, p: float = 0.5) -> torch.Tensor:
    return _uniform_double(numbers) < p


@_drawn(aten.bernoulli.default, 1, _is_float)
def _bernoulli_each(numbers: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return _uniform(numbers) < x.reshape(-1).float()


@_drawn(aten.exponential.default, 2)
def _exponential(numbers: torch.Tensor, x: torch.Tensor, rate: float = 1.0) -> torch.Tensor:
    return -torch.log1p(-_uniform_double(numbers)) / rate


@_drawn(aten.cauchy.default, 2)
def _cauchy(numbers: torch.Tensor, x: torch.Tensor, median: float = 0.0, sigma: float = 1.0) -> torch.Tensor:
    return median + sigma * torch.tan(math.pi * (_uniform_double(numbers) - 0.5))


@_drawn(aten.geometric.default, 2)
def _geometric(numbers: torch.Tensor, x: torch.Tensor, p: float) -> torch.Tensor:
    return torch.ceil(torch.log(_uniform_double(numbers)) / math.log1p(-p))


def _is_below(x: torch.Tensor, to: int) -> bool:
    return to < _WIDEST


def _is_between(x: torch.Tensor, start: int, to: int | None) -> bool:
    return to is not None and to - start < _WIDEST


@_drawn(aten.random.to, 1, _is_below)
def _random_below(numbers: torch.Tensor, x: torch.Tensor, to: int) -> torch.Tensor:
    return numbers % to


# By position: the name of its argument ``from`` is a word of Python's.
@_drawn(getattr(aten.random, "from"), 1, _is_between)
def _random_between(numbers: torch.Tensor, x: torch.Tensor, start: int, to: int) -> torch.Tensor:
    return numbers % (to - start) + start


def _drops(x: torch.Tensor, p: float, train: bool | None) -> bool:
    return x.dtype in _FLOATS and train is not False


def _native_dropout(
    numbers: torch.Tensor, x: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    kept = (_uniform_double(numbers) < 1.0 - p).reshape(x.shape)
    # What is dropped is multiplied by zero, of which infinity makes NaN; XLA has a product by a mask select.
    return torch.where(kept, x, x * 0.0) * (1.0 / (1.0 - p) if p < 1.0 else 0.0), kept


RANDOM[aten.native_dropout.default] = Drawing(2, _drops, _native_dropout)
