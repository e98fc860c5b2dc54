"""Results that an operator leaves to choice, in a form that the choice does not touch.

Eigenvectors and singular vectors are free in their signs, and within the space of an eigenvalue that is met
twice. What is checked is what defines them: the matrix that they make up, and that they are orthonormal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_Tensors = list[torch.Tensor]


def _eigen(results: _Tensors) -> _Tensors:
    if len(results) == 1:
        return results
    values, vectors = results
    return [values, (vectors * values.unsqueeze(-2)) @ vectors.mT, vectors.mT @ vectors]


def _singular(results: _Tensors) -> _Tensors:
    if len(results) == 1:
        return results
    u, values, vh = results
    count = values.shape[-1]
    made_up = (u[..., :count] * values.unsqueeze(-2)) @ vh[..., :count, :]
    return [values, made_up, u.mT @ u, vh @ vh.mT]


_FORMS: dict[Any, Callable[[_Tensors], _Tensors]] = {
    torch.ops.aten._linalg_eigh.default: _eigen,
    torch.ops.aten._linalg_svd.default: _singular,
}


def without_choice(overload: Any, results: _Tensors) -> _Tensors:
    """``results`` of ``overload`` as they are, or in the form in which two right ones are equal."""
    form = _FORMS.get(overload)
    return results if form is None else form(results)
