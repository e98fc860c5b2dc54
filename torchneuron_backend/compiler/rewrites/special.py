"""Special functions of one or two real arguments, in float32 as the CPU's kernels for float32 and less are.

Unless a function says otherwise its formula is that of the Cephes Math Library, as in ATen/native/Math.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from . import cephes
from .registry import aten, rewrites

_Function = Callable[[torch.Tensor], torch.Tensor]
_AnyFunction = TypeVar("_AnyFunction", bound=Callable[..., torch.Tensor])


def _real(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Compute in float32, and return the dtype that PyTorch promotes to. float64 goes on to the compiler."""

    def computed(*args: Any) -> Any:
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        dtype = tensors[0].dtype
        for each in tensors[1:]:
            dtype = torch.result_type(torch.empty([1], dtype=dtype), each)
        if dtype.is_complex or dtype == torch.float64:
            return NotImplemented
        wanted = dtype if dtype.is_floating_point else torch.float32
        floats = [each.float() if isinstance(each, torch.Tensor) else each for each in args]
        return function(*floats).to(wanted)

    return computed


def _special(*names: str) -> Callable[[_AnyFunction], _AnyFunction]:
    """Register a float32 function as the default overloads ``names``."""

    def register(function: _AnyFunction) -> _AnyFunction:
        for name in names:
            rewrites(getattr(aten, name).default)(_real(function))
        return function

    return register


def _polynomial(x: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """Horner's scheme, highest power first."""
    result = torch.full_like(x, coefficients[0])
    for each in coefficients[1:]:
        result = result * x + each
    return result


def _chebyshev(x: torch.Tensor, coefficients: Sequence[float]) -> torch.Tensor:
    """Clenshaw's recurrence, highest degree first; the last coefficient counts half."""
    last = before = torch.zeros_like(x)
    current = torch.full_like(x, coefficients[0])
    for each in coefficients[1:]:
        before, last = last, current
        current = x * last - before + each
    return 0.5 * (current - before)


def _nan(x: torch.Tensor) -> torch.Tensor:
    return torch.full_like(x, math.nan)


def _infinity(x: torch.Tensor) -> torch.Tensor:
    return torch.full_like(x, math.inf)


# The gamma function and its family.

_LANCZOS_SHIFT = 7.0
_LANCZOS_BASE = 0.99999999999980993
_LANCZOS = (
    676.520368121885098567,
    -1259.139216722402870472,
    771.3234287776530788487,
    -176.6150291621405990658,
    12.50734327868690481446,
    -0.1385710952657201168955,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)


@_special("lgamma", "special_gammaln")
def _lgamma(x: torch.Tensor) -> torch.Tensor:
    """C. Lanczos, "A precision approximation of the gamma function", 1964, with g = 7 and nine terms, and
    Euler's reflection below a half.
    """
    reflected = x < 0.5
    z = torch.where(reflected, -x, x - 1.0)
    total = torch.full_like(z, _LANCZOS_BASE)
    for index, each in enumerate(_LANCZOS):
        total = total + each / (z + (index + 1.0))
    t = z + (_LANCZOS_SHIFT + 0.5)
    log_t = math.log(_LANCZOS_SHIFT + 0.5) + torch.log1p(z / (_LANCZOS_SHIFT + 0.5))
    value = 0.5 * math.log(2 * math.pi) + (z + 0.5 - t / log_t) * log_t + torch.log(total)
    part = x.abs() - x.abs().floor()
    sine = torch.sin(math.pi * torch.where(part > 0.5, 1.0 - part, part))
    other = math.log(math.pi) - torch.log(sine) - value
    result = torch.where(reflected, torch.where(sine == 0, _infinity(x), other), value)
    result = torch.where((x == 1) | (x == 2), torch.zeros_like(x), result)
    return torch.where(x.isinf(), _infinity(x), result)


@_special("digamma", "special_digamma", "special_psi")
def _digamma(x: torch.Tensor) -> torch.Tensor:
    part = x - torch.trunc(x)
    reflected = x < 0
    z = torch.where(reflected, 1.0 - x, x)
    result = torch.zeros_like(z)
    for _ in range(10):
        small = z < 10
        result = torch.where(small, result - 1.0 / z, result)
        z = torch.where(small, z + 1.0, z)
    inverse = 1.0 / (z * z)
    tail = inverse * _polynomial(inverse, _DIGAMMA)
    result = result + torch.log(z) - 0.5 / z - tail
    result = torch.where(reflected, result - math.pi / torch.tan(math.pi * part), result)
    result = torch.where(reflected & (part == 0), _nan(x), result)
    return torch.where(x == 0, -1.0 / x, result)


_DIGAMMA = (
    8.33333333333333333333e-2,
    -2.10927960927960927961e-2,
    7.57575757575757575758e-3,
    -4.16666666666666666667e-3,
    3.96825396825396825397e-3,
    -8.33333333333333333333e-3,
    8.33333333333333333333e-2,
)
_ZETA = (
    12.0,
    -720.0,
    30240.0,
    -1209600.0,
    47900160.0,
    -1.8924375803183791606e9,
    7.47242496e10,
    -2.950130727918164224e12,
)


@_special("special_zeta")
def _zeta(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Hurwitz' zeta function by Euler and Maclaurin: ten terms or more up to 9, then the series' tail."""
    x, q = torch.broadcast_tensors(x, q)
    x, q = x.clone(), q.clone()
    total, a = torch.pow(q, -x), q
    power = total
    for step in range(_ZETA_TERMS):
        more = (a <= 9.0) if step >= 9 else torch.ones_like(q, dtype=torch.bool)
        a = torch.where(more, a + 1.0, a)
        power = torch.pow(a, -x)
        total = torch.where(more, total + power, total)
    total = total + power * a / (x - 1.0) - 0.5 * power
    factor, k = torch.ones_like(x), 0.0
    for each in _ZETA:
        factor = factor * (x + k)
        power = power / a
        total = total + factor * power / each
        factor = factor * (x + (k + 1.0))
        power = power / a
        k += 2.0
    # From the first infinite term on, as where x is large, the tail is not a number.
    total = torch.where(torch.pow(q, -x).isinf(), torch.pow(q, -x), total)
    whole = q == q.floor()
    below = torch.where(whole, _infinity(x), torch.where(x != x.floor(), _nan(x), total))
    result = torch.where(q <= 0, below, total)
    result = torch.where(x < 1.0, _nan(x), result)
    return torch.where(x == 1.0, _infinity(x), result)


# Enough for q >= -20; the loop of the original goes on until q is above 9.
_ZETA_TERMS = 30


@rewrites(aten.polygamma.default)
def _polygamma(n: int, x: torch.Tensor) -> Any:
    return _real(lambda floats: _polygamma_of(n, floats))(x)


def _polygamma_of(n: int, x: torch.Tensor) -> torch.Tensor:
    if n == 0:
        return _digamma(x)
    if n == 1:
        return _trigamma(x)
    sign = 1.0 if n % 2 else -1.0
    return sign * math.factorial(n) * _zeta(torch.full_like(x, n + 1.0), x)


def _trigamma(x: torch.Tensor) -> torch.Tensor:
    reflected = x < 0.5
    sine = torch.sin(math.pi * x)
    z = torch.where(reflected, 1.0 - x, x)
    total = torch.zeros_like(z)
    for _ in range(6):
        total = total + 1.0 / (z * z)
        z = z + 1.0
    inverse = 1.0 / (z * z)
    tail = inverse * (1.0 / 6 - inverse * (1.0 / 30 - inverse * (1.0 / 42)))
    total = total + (1.0 + 0.5 / z + tail) / z
    return torch.where(reflected, math.pi**2 / (sine * sine) - total, total)


@rewrites(aten.mvlgamma.default)
def _mvlgamma(x: torch.Tensor, p: int) -> Any:
    """The logarithm of the multivariate gamma function: a sum of ``p`` shifted ones."""

    def total(floats: torch.Tensor) -> torch.Tensor:
        result = torch.full_like(floats, p * (p - 1) / 4.0 * math.log(math.pi))
        for j in range(p):
            result = result + _lgamma(floats - j / 2.0)
        return result

    return _real(total)(x)


# The error function's family.


@_special("special_erfcx")
def _erfcx(x: torch.Tensor) -> torch.Tensor:
    """The rational Chebyshev fit of W. Press et al., "Numerical Recipes", 2nd ed., section 6.2 (erfcc), whose
    relative error is below 1.2e-7, without its factor exp(-x^2).
    """
    z = x.abs()
    t = 1.0 / (1.0 + 0.5 * z)
    value = t * torch.exp(_polynomial(t, _ERFCC))
    return torch.where(x < 0, 2.0 * torch.exp(x * x) - value, value)


_ERFCC = (
    0.17087277,
    -0.82215223,
    1.48851587,
    -1.13520398,
    0.27886807,
    -0.18628806,
    0.09678418,
    0.37409196,
    1.00002368,
    -1.26551223,
)


@_special("erfc", "special_erfc")
def _erfc(x: torch.Tensor) -> torch.Tensor:
    far = torch.exp(-x * x) * _erfcx(x.abs())
    return torch.where(x < 0.5, 1.0 - torch.erf(x), torch.where(x == math.inf, torch.zeros_like(x), far))


@_special("special_log_ndtr")
def _log_ndtr(x: torch.Tensor) -> torch.Tensor:
    t = x * math.sqrt(0.5)
    low = torch.log(_erfcx(-t) / 2) - t * t
    return torch.where(x < -1.0, low, torch.log1p(-_erfc(t) / 2))


@_special("erfinv", "special_erfinv")
def _erfinv(y: torch.Tensor) -> torch.Tensor:
    """A rational start and two steps of Newton's (G. Pavlis' translation of Matlab's erfinv)."""
    size = y.abs()
    z = y * y
    inner = _polynomial(z, (-0.140543331, 0.914624893, -1.645349621, 0.886226899))
    inner = y * inner / _polynomial(z, (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0))
    z = torch.sqrt(-torch.log((1.0 - size) / 2.0))
    outer = _polynomial(z, (1.641345311, 3.429567803, -1.624906493, -1.970840454))
    outer = outer / _polynomial(z, (1.637067800, 3.543889200, 1.0))
    x = torch.where(size <= 0.7, inner, torch.where(y < 0, -outer, outer))
    for _ in range(2):
        x = x - (torch.erf(x) - y) / (2.0 / math.sqrt(math.pi) * torch.exp(-x * x))
    x = torch.where(size == 1.0, y * math.inf, x)
    return torch.where(size > 1.0, _nan(y), x)


@_special("special_ndtri")
def _ndtri(y: torch.Tensor) -> torch.Tensor:
    limit = 0.13533528323661269189  # exp(-2)
    high = y > 1.0 - limit
    p = torch.where(high, 1.0 - y, y)
    centre = p - 0.5
    square = centre * centre
    ratio = _polynomial(square, cephes.NDTRI_P0) / _polynomial(square, cephes.NDTRI_Q0)
    inner = (centre + centre * (square * ratio)) * math.sqrt(2 * math.pi)
    x = torch.sqrt(-2.0 * torch.log(p))
    z = 1.0 / x
    near = z * _polynomial(z, cephes.NDTRI_P1) / _polynomial(z, cephes.NDTRI_Q1)
    far = z * _polynomial(z, cephes.NDTRI_P2) / _polynomial(z, cephes.NDTRI_Q2)
    outer = x - torch.log(x) / x - torch.where(x < 8.0, near, far)
    result = torch.where(p > limit, inner, torch.where(high, outer, -outer))
    result = torch.where(y == 0, -_infinity(y), torch.where(y == 1, _infinity(y), result))
    return torch.where((y < 0) | (y > 1), _nan(y), result)


# Bessel functions.


def _split(x: torch.Tensor, limit: float, low: _Function, high: _Function) -> torch.Tensor:
    """``low`` up to ``limit``, ``high`` above, each kept to arguments that it is good for."""
    return torch.where(x <= limit, low(x.clamp(max=limit)), high(x.clamp(min=limit)))


@_special("i0", "special_i0", "special_modified_bessel_i0")
def _i0(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x.abs()) * _i0e(x)


@_special("special_i0e")
def _i0e(x: torch.Tensor) -> torch.Tensor:
    return _split(
        x.abs(),
        8.0,
        lambda z: _chebyshev(z / 2.0 - 2.0, cephes.I0_A),
        lambda z: _chebyshev(32.0 / z - 2.0, cephes.I0_B) / torch.sqrt(z),
    )


@_special("special_i1", "special_modified_bessel_i1")
def _i1(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x.abs()) * _i1e(x)


@_special("special_i1e")
def _i1e(x: torch.Tensor) -> torch.Tensor:
    size = _split(
        x.abs(),
        8.0,
        lambda z: _chebyshev(z / 2.0 - 2.0, cephes.I1_A) * z,
        lambda z: _chebyshev(32.0 / z - 2.0, cephes.I1_B) / torch.sqrt(z),
    )
    return torch.where(x < 0, -size, size)


def _positive(x: torch.Tensor, value: torch.Tensor, at_zero: float) -> torch.Tensor:
    """``value`` above zero, ``at_zero`` there, and nothing below."""
    value = torch.where(x == 0, torch.full_like(x, at_zero), value)
    return torch.where(x < 0, _nan(x), value)


@_special("special_modified_bessel_k0")
def _k0(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(-x) * _k0e(x)


@_special("special_scaled_modified_bessel_k0")
def _k0e(x: torch.Tensor) -> torch.Tensor:
    def low(z: torch.Tensor) -> torch.Tensor:
        return (_chebyshev(z * z - 2.0, cephes.K0_A) - torch.log(0.5 * z) * _i0(z)) * torch.exp(z)

    def high(z: torch.Tensor) -> torch.Tensor:
        return _chebyshev(8.0 / z - 2.0, cephes.K0_B) / torch.sqrt(z)

    return _positive(x, _split(x, 2.0, low, high), math.inf)


@_special("special_modified_bessel_k1")
def _k1(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(-x) * _k1e(x)


@_special("special_scaled_modified_bessel_k1")
def _k1e(x: torch.Tensor) -> torch.Tensor:
    def low(z: torch.Tensor) -> torch.Tensor:
        return (torch.log(0.5 * z) * _i1(z) + _chebyshev(z * z - 2.0, cephes.K1_A) / z) * torch.exp(z)

    def high(z: torch.Tensor) -> torch.Tensor:
        return _chebyshev(8.0 / z - 2.0, cephes.K1_B) / torch.sqrt(z)

    return _positive(x, _split(x, 2.0, low, high), math.inf)


def _phases(z: torch.Tensor, order: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """For large arguments: the two amplitudes, and sine and cosine of the phase."""
    tables = (cephes.J0_PP, cephes.J0_PQ, cephes.J0_QP, cephes.J0_QQ)
    if order:
        tables = (cephes.J1_PP, cephes.J1_PQ, cephes.J1_QP, cephes.J1_QQ)
    square = (5.0 / z) * (5.0 / z)
    pp, pq, qp, qq = (_polynomial(square, table) for table in tables)
    root = math.sqrt(2 / math.pi) / torch.sqrt(z)
    phase = z - (0.75 if order else 0.25) * math.pi
    return pp / pq * root, 5.0 / z * (qp / qq) * root, torch.sin(phase), torch.cos(phase)


@_special("special_bessel_j0")
def _j0(x: torch.Tensor) -> torch.Tensor:
    def low(z: torch.Tensor) -> torch.Tensor:
        square = z * z
        ratio = _polynomial(square, cephes.J0_RP) / _polynomial(square, cephes.J0_RQ)
        return (square - 5.78318596294678452118) * (square - 30.4712623436620863991) * ratio

    def high(z: torch.Tensor) -> torch.Tensor:
        p, q, sine, cosine = _phases(z, 0)
        return p * cosine - q * sine

    return _split(x.abs(), 5.0, low, high)


@_special("special_bessel_j1")
def _j1(x: torch.Tensor) -> torch.Tensor:
    def low(z: torch.Tensor) -> torch.Tensor:
        square = z * z
        ratio = _polynomial(square, cephes.J1_RP) / _polynomial(square, cephes.J1_RQ)
        return ratio * z * (square - 14.6819706421238932572) * (square - 49.2184563216946036703)

    def high(z: torch.Tensor) -> torch.Tensor:
        p, q, sine, cosine = _phases(z, 1)
        return p * cosine - q * sine

    size = _split(x.abs(), 5.0, low, high)
    return torch.where(x < 0, -size, size)


@_special("special_bessel_y0")
def _y0(x: torch.Tensor) -> torch.Tensor:
    def low(z: torch.Tensor) -> torch.Tensor:
        square = z * z
        ratio = _polynomial(square, cephes.Y0_YP) / _polynomial(square, cephes.Y0_YQ)
        return ratio + 2 / math.pi * torch.log(z) * _j0(z)

    def high(z: torch.Tensor) -> torch.Tensor:
        p, q, sine, cosine = _phases(z, 0)
        return p * sine + q * cosine

    return _positive(x, _split(x, 5.0, low, high), -math.inf)


@_special("special_bessel_y1")
def _y1(x: torch.Tensor) -> torch.Tensor:
    def low(z: torch.Tensor) -> torch.Tensor:
        square = z * z
        ratio = _polynomial(square, cephes.Y1_YP) / _polynomial(square, cephes.Y1_YQ)
        return z * ratio + 2 / math.pi * (_j1(z) * torch.log(z) - 1.0 / z)

    def high(z: torch.Tensor) -> torch.Tensor:
        p, q, sine, cosine = _phases(z, 1)
        return p * sine + q * cosine

    return _positive(x, _split(x, 5.0, low, high), -math.inf)


@_special("special_spherical_bessel_j0")
def _spherical_j0(x: torch.Tensor) -> torch.Tensor:
    square = x * x
    near = _polynomial(square, (-1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1.0))
    value = torch.where(x.abs() < 0.5, near, torch.sin(x) / x)
    return torch.where(x.isinf(), torch.zeros_like(x), value)
