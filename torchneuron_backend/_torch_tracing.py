"""Where torch's tracers take a device they do not know for one that cannot: shapes, autocast, FlexAttention.

All of it concerns this device alone; tensors elsewhere are traced as torch does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_NAME = "neuron"


def install() -> None:
    """Teach the tracers; called once, as the device is registered."""
    _let_flex_attention_in()
    _let_higher_order_operators_see_autocast()
    _replay_random_calls()
    _register_shapes()


def _let_flex_attention_in() -> None:
    """Torch's list of devices is fixed, and the operator itself runs on any."""
    import torch.nn.attention.flex_attention as module

    setattr(module, "_validate_device", _also_here(module._validate_device))  # noqa: B010


def _also_here(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != _NAME:
            original(query, key, value)

    return validate_device


def _let_higher_order_operators_see_autocast() -> None:
    """As on the CPU: autocast means nothing to them, but FlexAttention casts query, key and value."""
    from torch._higher_order_ops.flex_attention import flex_attention

    key = torch._C.DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]
    torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(key)
    for hop in torch._ops._higher_order_ops.values():
        hop.fallthrough(key)
    flex_attention.non_fallthrough_keys = flex_attention.non_fallthrough_keys.add(key)
    flex_attention.py_impl(key)(_flex_attention_under_autocast)


def _flex_attention_under_autocast(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any
) -> Any:
    dtype = torch.get_autocast_dtype(_NAME)
    cast = [
        tensor.to(dtype) if tensor.dtype in (torch.float32, torch.float16, torch.bfloat16) else tensor
        for tensor in (query, key, value)
    ]
    autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # type: ignore[attr-defined]
    with torch._C._ExcludeDispatchKeyGuard(autocast):
        return torch.ops.higher_order.flex_attention(*cast, *rest)


def _replay_random_calls() -> None:
    """What a compiled checkpoint draws again it draws from the state of the device's generator."""
    from torch._prims import rng_prims

    key = torch._C.DispatchKey.BackendSelect
    for hop, here in (
        (rng_prims.run_and_save_rng_state, _run_and_save_state),
        (rng_prims.run_with_rng_state, _run_with_state),
    ):
        hop.py_kernels[key] = _on_this_device(here, hop.py_kernels[key])
        hop._dispatch_cache.clear()


def _on_this_device(here: Callable[..., Any], elsewhere: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in args if isinstance(value, torch.Tensor) and value.device.type == _NAME]
        device = tensors[0].device if tensors else kwargs.get("device")
        if device is None or torch.device(device).type != _NAME:
            return elsewhere(*args, **kwargs)
        return here(torch.device(device), *args, **kwargs)

    return run


def _run_and_save_state(device: torch.device, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    state = torch.get_device_module(device).get_rng_state(device)
    return state, call(*args, **kwargs)


def _run_with_state(
    device: torch.device, state: torch.Tensor, call: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    module = torch.get_device_module(device)
    current = module.get_rng_state(device)
    module.set_rng_state(state.cpu(), device)
    try:
        return call(*args, **kwargs)
    finally:
        module.set_rng_state(current, device)


def _register_shapes() -> None:
    from torch._subclasses.fake_impls import register_op_impl

    aten = torch.ops.aten
    register_op_impl(aten._grouped_mm.default)(_grouped_mm)
    register_op_impl(aten._thnn_fused_lstm_cell.default)(_lstm_cell)


def _grouped_mm(
    mode: Any,
    overload: Any,
    left: torch.Tensor,
    right: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """Torch's rule is CUDA's, which has a kernel for bfloat16 only; the device takes what the CPU takes."""
    if left.device.type != _NAME or left.dtype == torch.bfloat16:
        return NotImplemented
    from torch._meta_registrations import _create_grouped_mm_output_tensor

    with mode:
        return _create_grouped_mm_output_tensor(left, right, offs, out_dtype)


def _lstm_cell(
    mode: Any,
    overload: Any,
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    cx: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> Any:
    """Torch's rule takes the biases for given."""
    if input_bias is not None or cx.device.type != _NAME:
        return NotImplemented
    with mode:
        contiguous = torch.contiguous_format
        return (
            torch.empty_like(cx, memory_format=contiguous),
            torch.empty_like(cx, memory_format=contiguous),
            torch.empty_like(input_gates, memory_format=contiguous),
        )
