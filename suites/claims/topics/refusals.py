"""What the launch post says was left out on purpose.

Where it says that a feature is left out altogether, the device has to refuse it and say so. Where computing
on the host would be right as well, running there is as good as refusing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn import functional

from suites.claims.checks import (
    RefutedError,
    device_module,
    fallen_back,
    numbers,
    require,
    require_equal,
    require_refusal,
)
from suites.claims.claim import Source, Subject, Topic

topic = Topic("refusals", recorded=False)


@topic.claim("Sparse tensors are left out.", Source.LAUNCH_POST)
def sparse(subject: Subject) -> None:
    dense = torch.eye(4)
    require_refusal("to_sparse()", lambda: dense.to(subject.name).to_sparse(), "sparse")
    require_refusal("to_sparse_csr()", lambda: dense.to(subject.name).to_sparse_csr(), "sparse")
    require_refusal("a sparse tensor from the host", lambda: dense.to_sparse().to(subject.name), "sparse")


@topic.claim("NestedTensor is left out.", Source.LAUNCH_POST)
def nested(subject: Subject) -> None:
    parts = [torch.ones(2), torch.ones(3)]
    require_refusal(
        "a nested tensor", lambda: torch.nested.nested_tensor(parts, device=subject.name), "nested"
    )


@topic.claim("Forward-mode automatic differentiation (JVP) is left out.", Source.LAUNCH_POST)
def forward_mode(subject: Subject) -> None:
    x = torch.eye(2, device=subject.name)
    words = ("forward-mode", "forward mode", "forward ad", "jvp")
    require_refusal("torch.func.jvp", lambda: torch.func.jvp(torch.sin, (x,), (x,)), *words)
    with forward_ad.dual_level():
        require_refusal("make_dual", lambda: forward_ad.make_dual(x, x), *words)


@topic.claim("There is no equivalent of CUDA graphs.", Source.DOCUMENTATION, Source.LAUNCH_POST)
def cuda_graphs(subject: Subject) -> None:
    module = device_module(subject)
    names = ("CUDAGraph", "NeuronGraph", "Graph", "graph", "make_graphed_callables", "graph_pool_handle")
    have = [name for name in names if hasattr(module, name)]
    require(not have, f"torch.{subject.name} has {', '.join(have)}")
    require_refusal("torch.accelerator.Graph", lambda: torch.accelerator.Graph(), "graph")


@topic.claim("FP8 is not publicly available: the dtypes are refused.", Source.DOCUMENTATION)
def fp8(subject: Subject) -> None:
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        cast = _casting(subject, dtype)
        require_refusal(f"a cast to {dtype}", cast, "float8", "fp8", "dtype")


def _casting(subject: Subject, dtype: torch.dtype) -> Callable[[], Any]:
    return lambda: torch.ones(4, device=subject.name).to(dtype).float() + 1


@topic.claim("Per-channel quantisation is left out.", Source.LAUNCH_POST)
def per_channel_quantisation(subject: Subject) -> None:
    x, scales, zeros = (each.to(subject.name) for each in (torch.eye(4), torch.ones(4), torch.zeros(4)))
    require_refusal(
        "quantize_per_channel",
        lambda: torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8),
        "quantiz",
    )


def _refused_or_on_host(subject: Subject, what: str, call: Callable[[], Any]) -> None:
    try:
        fallen = fallen_back(subject, call)
    except NotImplementedError:
        return
    if not fallen:
        raise RefutedError(f"{what} ran on the device")


@topic.claim(
    "Arbitrary masks in native multi-head attention are left out; none and causal ones work.",
    Source.LAUNCH_POST,
)
def attention_masks(subject: Subject) -> None:
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    for what, mask in (("attention without a mask", None), ("causal attention", causal)):
        actual, expected = (_native_attention(device, mask) for device in (subject.name, "cpu"))
        require_equal(subject, actual, expected, what)
    any_kind = (numbers(5, 5) > 0.5).fill_diagonal_(False)
    _refused_or_on_host(subject, "a mask of any kind", lambda: _native_attention(subject.name, any_kind))


def _native_attention(device: str, mask: torch.Tensor | None) -> torch.Tensor:
    width, heads = 8, 2
    shapes = ((2, 5, width), (3 * width, width), (3 * width,), (width, width), (width,))
    x, weight, bias, out, out_bias = (numbers(*s, seed=n).to(device) for n, s in enumerate(shapes))
    moved = None if mask is None else mask.to(device)
    kind = None if mask is None else 0  # who may attend to whom, the same for all
    result: torch.Tensor = torch._native_multi_head_attention(
        x, x, x, width, heads, weight, bias, out, out_bias, moved, False, mask_type=kind
    )[0]
    return result


@topic.claim("Conjugate and negative view bits are left out.", Source.LAUNCH_POST)
def conjugate_and_negative_views(subject: Subject) -> None:
    x = torch.complex(numbers(4), numbers(4, seed=1)).to(subject.name)
    lazy = [
        name for name, view in (("conj", x.conj()), ("neg", x.conj().imag)) if view.is_conj() or view.is_neg()
    ]
    require(not lazy, f"views with the bits of {' and '.join(lazy)} are made")


@topic.claim("Windows of torch.signal are left out.", Source.LAUNCH_POST)
def signal_windows(subject: Subject) -> None:
    windows, device = torch.signal.windows, torch.device(subject.name)
    _refused_or_on_host(subject, "a Hann window", lambda: windows.hann(16, device=device))
    _refused_or_on_host(subject, "a Kaiser window", lambda: windows.kaiser(16, device=device))


@topic.claim("Bilinear and bicubic upsampling are left out.", Source.LAUNCH_POST)
def smooth_upsampling(subject: Subject) -> None:
    x = numbers(1, 2, 4, 4).to(subject.name)
    for mode in ("bilinear", "bicubic"):
        _refused_or_on_host(
            subject,
            f"upsampling with mode={mode!r}",
            lambda: functional.interpolate(x, scale_factor=2, mode=mode),  # noqa: B023 - done at once
        )
