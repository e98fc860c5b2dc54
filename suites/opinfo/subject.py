"""What the checks of one entry in one dtype share: its samples, generated once a process."""

from __future__ import annotations

import hashlib
from functools import cached_property, lru_cache

import torch

from suites.opinfo.entries import Entry, dtype_of, entries
from suites.opinfo.samples import Call, chosen_samples

KEPT = 12
"""Subjects kept at a time: the dtypes of one entry, whose cases stand side by side in a plan."""


class Subject:
    """An entry and a dtype.

    Attributes:
        dtype: its name, e.g. ``float32``.
        seed: what generators are seeded with, for its samples and before every call.
    """

    def __init__(self, entry: Entry, dtype: str) -> None:
        self.entry = entry
        self.dtype = dtype
        self.seed = stable_seed(f"{entry.database}::{entry.name}[{dtype}]")

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype itself."""
        return dtype_of(self.dtype)

    @cached_property
    def calls(self) -> list[Call]:
        """The samples, on the CPU; they are copied for every run and never run themselves.

        Raises:
            Exception: whatever the generator raises, which runs any code.
        """
        return chosen_samples(self.entry, self.torch_dtype, self.seed)

    @cached_property
    def differentiable_calls(self) -> list[Call]:
        """The same with tensors that require a gradient; generators may give others then."""
        return chosen_samples(self.entry, self.torch_dtype, self.seed, requires_grad=True)


@lru_cache(maxsize=KEPT)
def subject_of(database: str, name: str, dtype: str) -> Subject:
    """The subject of a case, the same one for all of its checks."""
    return Subject(entries(database)[name], dtype)


def stable_seed(text: str) -> int:
    """A seed that is the same for the same text, in any process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
