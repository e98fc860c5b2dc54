"""Random operators as functions of the generator's state: the CPU's numbers, from the CPU's generator.

The generator is MT19937 (M. Matsumoto and T. Nishimura, "Mersenne Twister", 1998), 624 words and the place
of the next one among them; what is made of its words is that of ATen/core/DistributionsHelper.h and
TransformationHelper.h. (Where torch draws with MKL, on Intel processors, some numbers are MKL's: the probe
says what holds where it runs.) A rewrite here takes ``words`` (int64 [624], below 2^32) and ``place`` (int64,
0 to 624) before the operator's arguments, and returns the operator's results, then words and place after it.

Compiled graphs leave random operators to the device, which has the generator; these programs are for one
operator at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .registry import aten

_WORDS, _AHEAD = 624, 397
_TWIST = 0x9908B0DF
# Each 624 numbers are one more step of the unrolled generator.
_MOST_NUMBERS = 1 << 14

RANDOM: dict[Any, Callable[..., Any]] = {}

State = tuple[torch.Tensor, torch.Tensor]


def _shifted(word: torch.Tensor, bits: int) -> torch.Tensor:
    return torch.div(word, 1 << bits, rounding_mode="floor")


def _mask(value: int) -> torch.Tensor:
    return torch.full([1], value, dtype=torch.int64)


def _twisted(upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
    mixed = (upper & _mask(0x80000000)) | (lower & _mask(0x7FFFFFFF))
    return _shifted(mixed, 1) ^ ((lower & _mask(1)) * _TWIST)


def _next_words(old: torch.Tensor) -> torch.Tensor:
    """The generator's next 624 words: each from words before it, so in pieces that do not need each other."""
    split = _WORDS - _AHEAD
    first = old[_AHEAD:] ^ _twisted(old[:split], old[1 : split + 1])
    second = first ^ _twisted(old[split : 2 * split], old[split + 1 : 2 * split + 1])
    third = second[: _WORDS - 1 - 2 * split] ^ _twisted(old[2 * split : -1], old[2 * split + 1 :])
    last = second[_WORDS - 1 - 2 * split :][:1] ^ _twisted(old[-1:], first[:1])
    return torch.cat([first, second, third, last])


def _tempered(word: torch.Tensor) -> torch.Tensor:
    word = word ^ _shifted(word, 11)
    word = word ^ ((word * 128) & _mask(0x9D2C5680))
    word = word ^ ((word * 32768) & _mask(0xEFC60000))
    return word ^ _shifted(word, 18)


def _draw(words: torch.Tensor, place: torch.Tensor, count: int) -> tuple[torch.Tensor, State]:
    """The next ``count`` numbers of 32 bits, and the state behind them."""
    blocks = [words]
    for _ in range(-(-count // _WORDS)):
        blocks.append(_next_words(blocks[-1]))
    stream = torch.cat(blocks)
    numbers = _tempered(stream.index_select(0, place + torch.arange(count)))
    end = place + count
    # The block of the last word read: its end is not yet the next one's start.
    block = torch.div(end - 1, _WORDS, rounding_mode="floor").clamp(min=0)
    after = torch.stack(blocks).index_select(0, block.reshape(1)).reshape(_WORDS)
    return numbers, (after, end - block * _WORDS)


_DIGITS = 24
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _uniform(state: State, count: int) -> tuple[torch.Tensor, State]:
    """float32 in [0, 1)."""
    numbers, state = _draw(*state, count)
    return (numbers & _mask((1 << _DIGITS) - 1)).to(torch.float32) * 2.0**-_DIGITS, state


def _uniform_double(state: State, count: int) -> tuple[torch.Tensor, State]:
    numbers, state = _draw(*state, 2 * count)
    pairs = numbers.reshape(count, 2)
    high = (pairs[:, 0] & _mask((1 << 21) - 1)).to(torch.float64)
    return (high * 2.0**32 + pairs[:, 1].to(torch.float64)) * 2.0**-53, state


def _fits(x: torch.Tensor) -> bool:
    return 0 < x.numel() <= _MOST_NUMBERS and x.is_contiguous()


def _drawn(overload: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of state, tensor and arguments that returns its values, flat, and the state."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def computed(
            words: torch.Tensor, place: torch.Tensor, x: torch.Tensor, *args: Any, **named: Any
        ) -> Any:
            named.pop("generator", None)
            result = function((words, place), x, *args, **named) if _fits(x) else NotImplemented
            if result is NotImplemented:
                return NotImplemented
            values, state = result
            return values.reshape(x.shape).to(x.dtype), *state

        RANDOM[overload] = computed
        return function

    return register


@_drawn(aten.uniform.default)
def _uniform_between(state: State, x: torch.Tensor, start: float = 0.0, end: float = 1.0) -> Any:
    if x.dtype not in _FLOATS:
        return NotImplemented
    values, state = _uniform(state, x.numel())
    rounded = (values * (end - start) + start).to(x.dtype)
    # The end is no part of the interval, even where rounding leads there.
    return torch.where(rounded == end, torch.full_like(rounded, start), rounded), state


@_drawn(aten.bernoulli.p)
def _bernoulli(state: State, x: torch.Tensor, p: float = 0.5) -> Any:
    values, state = _uniform_double(state, x.numel())
    return values < p, state


@_drawn(aten.bernoulli.default)
def _bernoulli_each(state: State, x: torch.Tensor) -> Any:
    if x.dtype not in _FLOATS:
        return NotImplemented
    values, state = _uniform(state, x.numel())
    return values < x.reshape(-1).float(), state


@_drawn(aten.exponential.default)
def _exponential(state: State, x: torch.Tensor, rate: float = 1.0) -> Any:
    values, state = _uniform_double(state, x.numel())
    return -torch.log1p(-values) / rate, state


@_drawn(aten.cauchy.default)
def _cauchy(state: State, x: torch.Tensor, median: float = 0.0, sigma: float = 1.0) -> Any:
    values, state = _uniform_double(state, x.numel())
    return median + sigma * torch.tan(math.pi * (values - 0.5)), state


@_drawn(aten.geometric.default)
def _geometric(state: State, x: torch.Tensor, p: float) -> Any:
    values, state = _uniform_double(state, x.numel())
    return torch.ceil(torch.log(values) / math.log1p(-p)), state


def _whole(state: State, x: torch.Tensor, base: int, span: int) -> Any:
    if span >= 1 << 28:  # from here on the CPU draws 64 bits
        return NotImplemented
    numbers, state = _draw(*state, x.numel())
    return numbers % span + base, state


@_drawn(aten.random.to)
def _random_below(state: State, x: torch.Tensor, to: int) -> Any:
    return _whole(state, x, 0, to)


@_drawn(getattr(aten.random, "from"))
def _random_between(state: State, x: torch.Tensor, start: int, to: int | None) -> Any:
    return NotImplemented if to is None else _whole(state, x, start, to - start)


def _native_dropout(
    words: torch.Tensor, place: torch.Tensor, x: torch.Tensor, p: float, train: bool | None
) -> Any:
    if not _fits(x) or x.dtype not in _FLOATS or train is False or not 0.0 < p < 1.0:
        return NotImplemented
    values, state = _uniform_double((words, place), x.numel())
    kept = (values < 1.0 - p).reshape(x.shape)
    scale = 1.0 / (1.0 - p)
    return torch.where(kept, x * scale, torch.zeros_like(x)), kept, *state


RANDOM[aten.native_dropout.default] = _native_dropout
