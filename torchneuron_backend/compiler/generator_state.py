"""The state of a CPU generator as tensors, for the programs of random operators."""

from __future__ import annotations

import os
import threading

import torch

from .mersenne import WORDS

# CPUGeneratorImplStateLegacy in ATen/CPUGeneratorImpl.cpp: the seed (8 bytes), how many words are left until
# the next 624 are made, plus one (4), whether seeded (4), the next word's place (8), the words (8 each).
_LEFT, _NEXT, _STATE = slice(8, 12), slice(16, 24), slice(24, 24 + 8 * WORDS)

# Held from reading a state to writing the one after it: two threads must not draw the same numbers.
drawing = threading.Lock()


def _new_lock() -> None:
    global drawing
    drawing = threading.Lock()


# Another thread may hold the lock at the moment of the fork.
os.register_at_fork(after_in_child=_new_lock)


def read(generator: torch.Generator) -> list[torch.Tensor]:
    """Its words (int64 [624], below 2^32) and the place of the next (int64); 624: still to be made."""
    raw = generator.get_state()
    left = raw[_LEFT].clone().view(torch.int32).to(torch.int64)
    return [raw[_STATE].clone().view(torch.int64), (WORDS + 1 - left).reshape(())]


def write(generator: torch.Generator, words: torch.Tensor, place: torch.Tensor) -> None:
    """Have it go on from there, as from what :func:`read` gives after a draw: ``place`` is 1 to 624."""
    raw = generator.get_state()
    raw[_LEFT] = (WORDS + 1 - place).to(torch.int32).reshape(1).view(torch.uint8)
    raw[_NEXT] = place.reshape(1).view(torch.uint8)
    raw[_STATE] = words.view(torch.uint8)
    generator.set_state(raw)
