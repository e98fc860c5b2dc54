"""The table of rewrites by overload, and the decorator that fills it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

REWRITES: dict[Any, Callable[..., Any]] = {}


def rewrites(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the way to compute ``overloads``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        REWRITES.update(dict.fromkeys(overloads, function))
        return function

    return register
