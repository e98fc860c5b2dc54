"""The CPU generator's state as tensors, for the programs of random operators."""

from __future__ import annotations

import torch

_WORDS = 624
# CPUGeneratorImplStateLegacy in ATen/CPUGeneratorImpl.cpp: the seed (8 bytes), how many words are left until
# the next 624 are made, plus one (4), whether seeded (4), the next word's place (8), the words (8 each).
_LEFT, _STATE = slice(8, 12), slice(24, 24 + 8 * _WORDS)


def state() -> list[torch.Tensor]:
    """The default generator's words (int64 [624]) and the place of the next; 624: still to be made."""
    raw = torch.get_rng_state()
    left = raw[_LEFT].clone().view(torch.int32).to(torch.int64)
    return [raw[_STATE].clone().view(torch.int64), (_WORDS + 1 - left).reshape(())]
