"""Orthogonal polynomials whose degree is data.

Chebyshev's have closed forms (NIST Digital Library of Mathematical Functions, 18.5.1 to 18.5.4) with the
trigonometric functions inside [-1, 1] and the hyperbolic ones outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .special import _special

_Pair = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _sign(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """Sign of (-1)^n where x is negative: the polynomials are even or odd as n is."""
    odd = torch.fmod(n, 2.0) != 0
    return torch.where((x < 0) & odd, torch.full_like(n, -1.0), torch.ones_like(n))


def _degree(function: _Pair, *, at_one: _Pair, at_minus_one: _Pair) -> _Pair:
    def computed(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        x, n = (each.clone() for each in torch.broadcast_tensors(x, torch.trunc(n)))
        result = torch.where(x == 1.0, at_one(x, n), function(x, n))
        result = torch.where(x == -1.0, at_minus_one(x, n), result)
        result = torch.where(n == 0, torch.ones_like(x), result)
        return torch.where(n < 0, torch.zeros_like(x), result)

    return computed


def _acosh(x: torch.Tensor) -> torch.Tensor:
    """Of |x| where that is above 1; 0 elsewhere."""
    more = (x.abs() - 1.0).clamp(min=0.0)
    return torch.log1p(more + torch.sqrt(more * (more + 2.0)))


def _cosh(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (torch.exp(x) + torch.exp(-x))


def _sinh(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (torch.exp(x) - torch.exp(-x))


def _angle(x: torch.Tensor) -> torch.Tensor:
    return torch.acos(x.clamp(-1.0, 1.0))


def _t(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outside = _sign(x, n) * _cosh(n * _acosh(x))
    return torch.where(x.abs() <= 1.0, torch.cos(n * _angle(x)), outside)


def _u(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    inside = torch.sin((n + 1.0) * _angle(x)) / torch.sin(_angle(x))
    outside = _sign(x, n) * _sinh((n + 1.0) * _acosh(x)) / _sinh(_acosh(x))
    return torch.where(x.abs() <= 1.0, inside, outside)


def _v(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    half = _angle(x) / 2.0
    inside = torch.cos((n + 0.5) * _angle(x)) / torch.cos(half)
    far = _acosh(x)
    above = _cosh((n + 0.5) * far) / _cosh(far / 2.0)
    below = _sign(x, n) * _sinh((n + 0.5) * far) / _sinh(far / 2.0)
    return torch.where(x.abs() <= 1.0, inside, torch.where(x > 0, above, below))


def _w(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return _v(-x, n) * _sign(-torch.ones_like(x), n)


def _alternating(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return _sign(-torch.ones_like(x), n)


def _one(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(n)


def _odd_count(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return n + n + 1.0


_FAMILIES: dict[str, _Pair] = {
    "t": _degree(_t, at_one=_one, at_minus_one=_alternating),
    "u": _degree(_u, at_one=lambda x, n: n + 1.0, at_minus_one=lambda x, n: (n + 1.0) * _alternating(x, n)),
    "v": _degree(_v, at_one=_one, at_minus_one=lambda x, n: _odd_count(x, n) * _alternating(x, n)),
    "w": _degree(_w, at_one=_odd_count, at_minus_one=_alternating),
}


def _shifted(function: _Pair) -> _Pair:
    return lambda x, n: function(x + x - 1.0, n)


for _name, _function in _FAMILIES.items():
    _plain: Any = _function
    _special(f"special_chebyshev_polynomial_{_name}")(_plain)
    _moved: Any = _shifted(_function)
    _special(f"special_shifted_chebyshev_polynomial_{_name}")(_moved)


# The CPU's kernels give no number for higher degrees, as their values overflow.
_MOST_HERMITE = 128


def _hermite(x: torch.Tensor, n: torch.Tensor, factor: float) -> torch.Tensor:
    """p(k + 1) = f x p(k) - f k p(k - 1), from 1 and f x: f is 2 for the physicists' polynomials, 1 for the
    probabilists'.
    """
    x, n = (each.clone() for each in torch.broadcast_tensors(x, torch.trunc(n)))
    before, current = torch.ones_like(x), factor * x
    result = torch.where(n == 0, before, torch.where(n < 0, torch.zeros_like(x), current))
    for degree in range(1, _MOST_HERMITE):
        before, current = current, factor * (x * current - degree * before)
        result = torch.where(n == degree + 1, current, result)
    return torch.where(n > _MOST_HERMITE, torch.full_like(result, math.nan), result)


@_special("special_hermite_polynomial_h")
def _hermite_h(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return _hermite(x, n, 2.0)


@_special("special_hermite_polynomial_he")
def _hermite_he(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return _hermite(x, n, 1.0)
