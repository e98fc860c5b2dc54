"""The fused recurrent cells, which torch calls on every PrivateUse1 device, taken apart into their gates.

The same formulas, with the same workspaces, as the device's own kernels (``csrc/nn_ops.cpp``). PyTorch
has no meta kernels for the cells of the GRU, so tracing would stop at them: the rewrites serve as those too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .registry import aten, rewrites


def _plus(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


@rewrites(aten._thnn_fused_lstm_cell.default)
def _lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gates in torch's order: in, forget, cell, out. Returns hy, cy and the activated gates."""
    gates = _plus(hidden_gates, hidden_bias) + _plus(input_gates, input_bias)
    into, forget, cell, out = gates.chunk(4, 1)
    into, forget, cell, out = into.sigmoid(), forget.sigmoid(), cell.tanh(), out.sigmoid()
    cy = forget * cx + into * cell
    return out * cy.tanh(), cy, torch.cat([into, forget, cell, out], 1)


@rewrites(aten._thnn_fused_lstm_cell_backward_impl.default)
def _lstm_cell_backward(
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    cx: Tensor,
    cy: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the gates, of cx, and of the bias."""
    into, forget, cell, out = workspace.chunk(4, 1)
    bent = cy.tanh()
    from_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    to_cy = from_hy * out * (1 - bent * bent)
    if grad_cy is not None:
        to_cy = to_cy + grad_cy
    parts = [
        to_cy * cell * into * (1 - into),
        to_cy * cx * forget * (1 - forget),
        to_cy * into * (1 - cell * cell),
        from_hy * bent * out * (1 - out),
    ]
    gates = torch.cat(parts, 1)
    return gates, to_cy * forget, gates.sum(0) if has_bias else gates.new_zeros(0)


@rewrites(aten._thnn_fused_gru_cell.default)
def _gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gates in torch's order: reset, update, new. Returns hy and the workspace of backward."""
    in_reset, in_update, in_new = _plus(input_gates, input_bias).chunk(3, 1)
    hid_reset, hid_update, hid_new = _plus(hidden_gates, hidden_bias).chunk(3, 1)
    reset, update = (hid_reset + in_reset).sigmoid(), (hid_update + in_update).sigmoid()
    fresh = (in_new + hid_new * reset).tanh()
    return (hx - fresh) * update + fresh, torch.cat([reset, update, fresh, hx, hid_new], 1)


@rewrites(aten._thnn_fused_gru_cell_backward.default)
def _gru_cell_backward(grad_hy: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Tensor, ...]:
    """Gradients of the input gates, the hidden gates, hx, and both biases."""
    reset, update, fresh, hx, hidden_new = workspace.chunk(5, 1)
    grad_new = grad_hy * (1 - update) * (1 - fresh * fresh)
    grad_reset = grad_new * hidden_new * reset * (1 - reset)
    grad_update = grad_hy * (hx - fresh) * update * (1 - update)
    grad_input = torch.cat([grad_reset, grad_update, grad_new], 1)
    grad_hidden = torch.cat([grad_reset, grad_update, grad_new * reset], 1)
    none = grad_input.new_zeros(0)
    biases = (grad_input.sum(0), grad_hidden.sum(0)) if has_bias else (none, none)
    return grad_input, grad_hidden, grad_hy * update, *biases


def _register_meta() -> Any:
    library = torch.library.Library("aten", "IMPL")
    for name, function in (
        ("_thnn_fused_gru_cell", _gru_cell),
        ("_thnn_fused_gru_cell_backward", _gru_cell_backward),
    ):
        library.impl(name, function, "Meta")
    return library


_META = _register_meta()  # the registrations live as long as the library object
