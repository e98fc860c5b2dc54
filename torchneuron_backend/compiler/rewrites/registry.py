"""The table of rewrites by overload, and the decorator that fills it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

REWRITES: dict[Any, Callable[..., Any]] = {}


def rewrites(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the way to compute ``overloads``.

    One that answers NotImplemented leaves the call to what was registered before it, and at last to PyTorch's
    decomposition or the compiler.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            earlier = REWRITES.get(overload)
            REWRITES[overload] = function if earlier is None else first_of(function, earlier)
        return function

    return register


def first_of(rewrite: Callable[..., Any], other: Callable[..., Any] | None) -> Callable[..., Any]:
    """``rewrite``, or where it answers NotImplemented, ``other``; None leaves the operator to the
    compiler.
    """

    def computed(*args: Any, **kwargs: Any) -> Any:
        result = rewrite(*args, **kwargs)
        return other(*args, **kwargs) if result is NotImplemented and other is not None else result

    return computed
