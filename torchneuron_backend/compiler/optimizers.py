"""What optimizers call, taken apart: operators on lists of tensors, and the multiply-add of tensor rates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


@functools.cache
def list_rewrites() -> dict[Any, Callable[..., Any]]:
    """Rewrites by overload: each functional ``_foreach_`` operator as one call per tensor."""
    return {overload: _one_by_one(overload) for overload in _list_operators()}


def multiply_add_rewrite() -> dict[Any, Callable[..., Any]]:
    """``prims.fma``, which exists once Dynamo has traced an optimizer: a product and a sum."""
    packet = getattr(torch.ops.prims, "fma", None)
    return {} if packet is None else {packet.default: _multiply_add}


def _multiply_add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return a * b + c


def _list_operators() -> list[torch._ops.OpOverload]:
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        packet, _, overload = name.removeprefix("aten::").partition(".")
        if not name.startswith("aten::_foreach_"):
            continue
        candidate = getattr(getattr(torch.ops.aten, packet), overload or "default")
        if not candidate._schema.is_mutable and candidate.has_kernel_for_dispatch_key(_ONE_BY_ONE):
            found.append(candidate)
    return found


_ONE_BY_ONE = torch._C.DispatchKey.CompositeExplicitAutograd


def _one_by_one(overload: torch._ops.OpOverload) -> Callable[..., Any]:
    """The operator's own kernel for devices without a fused one: a loop over the tensors."""
    return functools.partial(overload._op_dk, _ONE_BY_ONE)
