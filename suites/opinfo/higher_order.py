"""Entries of ``hop_db``: operators that take functions."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch.testing._internal.hop_db import hop_db

from suites.opinfo.entries import Entry, OpEntry

HOP_DB = "hop_db"

NOT_ONLY_CUDA = ("flex_attention", "flex_attention_backward", "local_map_hop")
"""Listed for CUDA alone because upstream's tests compile them; eager, they run anywhere."""


class HigherOrderEntry(OpEntry):
    """An ``OpInfo`` of a higher-order operator."""

    __slots__ = ()

    paired = False  # these compile inside, which Dynamo does not do under a mode

    @property
    def dtypes(self) -> Collection[torch.dtype]:
        """What the list says of the CPU, or of CUDA for what `NOT_ONLY_CUDA` names."""
        found: Collection[torch.dtype] = self.info.supported_dtypes(self._listed_for)
        return found

    @property
    def gradient_dtypes(self) -> Collection[torch.dtype]:
        """Empty where the operator has no derivative, or none on the CPU to compare with."""
        if self.info.name == "register_hook":  # the list denies it a derivative, which is all it has
            return [dtype for dtype in self.dtypes if dtype.is_floating_point]
        found: Collection[torch.dtype] = self.info.supported_backward_dtypes(self._listed_for)
        return found if self.info.supports_autograd and self.info.name != "flex_attention" else ()

    def lacks(self, check: str) -> str:
        """A hook does nothing until backward."""
        idle = self.info.name == "register_hook" and check in ("forward", "noncontiguous", "determinism")
        return "a hook does nothing before backward" if idle else ""

    @property
    def _listed_for(self) -> str:
        return "cuda" if self.info.name in NOT_ONLY_CUDA else "cpu"


def named() -> list[tuple[str, Entry]]:
    """Every entry of the installed torch with its name."""
    return [(info.full_name, HigherOrderEntry(HOP_DB, info.full_name, info)) for info in hop_db]
