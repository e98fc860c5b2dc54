"""Between device tensors and the host tensors an executable reads and writes, without a copy where there
is a way.
"""

from __future__ import annotations

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false

from .graph import ResultSpec


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """A host tensor with the values of ``tensor``, to be read, sharing its memory where the device lets us
    see it.
    """
    if tensor.device.type == "cpu":
        return tensor
    from torchneuron_backend.memory import host_alias

    return host_alias(tensor.detach(), writable=False)


def to_device(tensor: torch.Tensor, spec: ResultSpec) -> torch.Tensor:
    """``tensor`` (host, contiguous, owned by nobody else) as the graph promised it: strides and device of
    ``spec``.
    """
    tensor = _with_strides(tensor, spec)
    if spec.device.type == "cpu":
        return tensor
    from torchneuron_backend.memory import adopt

    return adopt(tensor, spec.device.index or 0)


def _with_strides(tensor: torch.Tensor, spec: ResultSpec) -> torch.Tensor:
    """Callers may have been traced with these strides. Overlapping ones (an expanded tensor) cannot be
    written.
    """
    if tensor.stride() == spec.stride:
        return tensor
    wanted = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype, device="meta")
    if not is_non_overlapping_and_dense_or_false(wanted):
        return tensor
    return torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype).copy_(tensor)
