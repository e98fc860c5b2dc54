"""Entries of the ``foreach`` lists: one call for a list of tensors, as optimizers make it."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch.testing._internal import common_methods_invocations as lists

from suites.opinfo.entries import Entry, OpEntry, operators

FOREACH = "foreach"

PREFIX = "_foreach_"

PLAIN = {
    "copy": "clone",
    "div": "div.no_rounding_mode",
    "max": "max.reduction_no_dim",
    "norm": "linalg.vector_norm",
    "zero": "zeros_like",
}
"""The operator for one tensor where it has another name."""


class ForeachEntry(OpEntry):
    """A ``ForeachFuncInfo``."""

    __slots__ = ()

    @property
    def dtypes(self) -> Collection[torch.dtype]:
        """Those of the operator for one tensor: the lists name every dtype for every operator."""
        plain = self.name.removeprefix(PREFIX)
        return set(super().dtypes) & set(operators()[PLAIN.get(plain, plain)].supported_dtypes("cpu"))

    @property
    def gradient_dtypes(self) -> Collection[torch.dtype]:
        """Empty where the only form is in place, which refuses a leaf that requires a gradient."""
        return super().gradient_dtypes if self.info.supports_out else ()


def named() -> list[tuple[str, Entry]]:
    """Every entry of the installed torch with its name."""
    infos = [
        *lists.foreach_unary_op_db,
        *lists.foreach_binary_op_db,
        *lists.foreach_pointwise_op_db,
        *lists.foreach_reduce_op_db,
        *lists.foreach_other_op_db,
    ]
    return [(info.full_name, ForeachEntry(FOREACH, info.full_name, info)) for info in infos]
