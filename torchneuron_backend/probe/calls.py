"""Collects example calls of ATen overloads by watching real programs run on the CPU.

Programs are OpInfo samples, forward and backward, and tiny transformers models. What is kept of each call is
the overload in its functional form and its arguments, a few per (overload, dtype).
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map_only

from ..compiler.graph import dtype_name, operator_name
from ..compiler.single import functional_form
from .conditions import CONDITIONS, held

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.bool)

# Larger samples say nothing more about an operator and cost compile time.
_MAX_ELEMENTS = 20_000
_CALLS_PER_SIGNATURE = 2
_CALLS_PER_OP = 4


@dataclass(frozen=True)
class Key:
    """An overload and the dtype of its first tensor argument (of its result where it takes no tensor)."""

    op: str
    dtype: str


@dataclass
class Call:
    """One example: call ``overload(*args, **kwargs)``; tensors are CPU tensors and must be cloned before
    use.
    """

    overload: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class Calls:
    """Examples by key, bounded per key."""

    dtypes: tuple[torch.dtype, ...] = DTYPES
    by_key: dict[Key, list[Call]] = field(default_factory=dict)
    _seen: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    _exact: set[tuple[Key, str]] = field(default_factory=set)

    def offer(
        self, overload: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Keep this call if its key still has room for one that looks like it: calls that meet the same
        conditions and choose the same computation have room of their own.
        """
        found = key_of(overload, args, kwargs, out)
        if found is None:
            return
        key, functional, kwargs, tensors, results = found
        conditions = held(args, kwargs)
        # A call too large for some condition shows what becomes of those.
        limit = _MAX_ELEMENTS if len(conditions) == len(CONDITIONS) else 5 * _MAX_ELEMENTS
        if key.dtype not in map(dtype_name, self.dtypes) or _elements(tensors + results) > limit:
            return
        if not self._has_room((key, conditions, choices(functional, args, kwargs)), tensors, args, kwargs):
            return
        copies = tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), (args, kwargs))
        self.by_key.setdefault(key, []).append(Call(functional, *copies))

    def _has_room(
        self, group: tuple[Key, Any, Any], tensors: list[torch.Tensor], args: Any, kwargs: Any
    ) -> bool:
        # Two examples per combination of dtypes and ranks: one-element and empty tensors first would hide the
        # rest.
        signature = str([(tensor.dtype, tensor.ndim, tensor.numel() > 1) for tensor in tensors])
        exact = str(tree_map_only(torch.Tensor, lambda tensor: (tensor.dtype, tensor.shape), (args, kwargs)))
        if (group[0], exact) in self._exact or self._seen[*group, signature] >= _CALLS_PER_SIGNATURE:
            return False
        if self._seen[group] >= _CALLS_PER_OP:
            return False
        self._exact.add((group[0], exact))
        self._seen.update([group, (*group, signature)])
        return True


def key_of(
    overload: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> tuple[Key, torch._ops.OpOverload, dict[str, Any], list[torch.Tensor], list[torch.Tensor]] | None:
    """The key of a call, with its functional form, that one's keyword arguments, and the tensors in and out.

    None for a call that is of no use: no functional form, no plain tensors, or nothing to compute, as where
    an operator only reads (a number out of a tensor, errors).
    """
    functional = functional_form(overload)
    if functional is None or {str(result.type) for result in functional._schema.returns} <= {"number"}:
        return None
    kwargs = {name: value for name, value in kwargs.items() if not _is_out_argument(overload, name)}
    kwargs |= _left_to_default(overload, functional, len(args), kwargs)
    tensors = [item for item in tree_flatten((args, kwargs))[0] if isinstance(item, torch.Tensor)]
    results = [item for item in tree_flatten(out)[0] if isinstance(item, torch.Tensor)]
    if not (tensors or results) or not all(map(_is_plain, tensors + results)):
        return None
    nothing_in = bool(tensors) and not all(tensor.numel() for tensor in tensors)
    nothing_out = bool(results) and not any(tensor.numel() for tensor in results)
    # How much comes out of these is data: that none does here says nothing.
    by_data = torch.Tag.dynamic_output_shape in overload.tags
    if nothing_out and (nothing_in or not by_data):
        return None
    key = Key(operator_name(functional), dtype_name((tensors or results)[0].dtype))
    return key, functional, kwargs, tensors, results


def choices(
    overload: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """The arguments by which a call chooses among computations: texts (``rounding_mode="floor"``), and the
    numbers that stand for such texts below Python (``interpolation_mode``, ``reduction``).
    """
    chosen = []
    for place, argument in enumerate(overload._schema.arguments):
        value = args[place] if place < len(args) else kwargs.get(argument.name, argument.default_value)
        is_enumeration = argument.name == "reduction" or argument.name.endswith("mode")
        if isinstance(value, str) or (isinstance(value, int) and is_enumeration):
            chosen.append((argument.name, value))
    return tuple(chosen)


def _left_to_default(
    overload: torch._ops.OpOverload, functional: torch._ops.OpOverload, given: int, kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Arguments that the call left to a default of ``overload`` which ``functional`` has not."""
    needed = {argument.name for argument in functional._schema.arguments if not argument.has_default_value()}
    return {
        argument.name: argument.default_value
        for argument in overload._schema.arguments[given:]
        if argument.name in needed and argument.has_default_value() and argument.name not in kwargs
    }


def _elements(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and not tensor.is_quantized
    )


def _is_out_argument(overload: torch._ops.OpOverload, name: str) -> bool:
    return any(argument.name == name and argument.is_out for argument in overload._schema.arguments)


class Offered(Protocol):
    """Takes calls: an overload, its arguments and its result."""

    def offer(
        self, overload: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None: ...


class Watch(TorchDispatchMode):
    """While active, offers every ATen call to ``calls``."""

    def __init__(self, calls: Offered) -> None:
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # Before the call: an in-place one changes its argument.
        functional = functional_form(func)
        before: Any = (args, kwargs)
        if functional is not None and func._schema.is_mutable:
            before = tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), (args, kwargs))
        out = func(*args, **kwargs)
        self.calls.offer(func, before[0], before[1], out)
        return out


def collect_opinfo(calls: Calls, only: set[str] | None = None, samples: int = 4) -> None:
    """Run the first ``samples`` OpInfo samples of each operator, forward and backward, in every dtype of
    ``calls``.

    ``only`` names operators as OpInfo does (``nn.functional.gelu``) or ATen does (``aten::gelu``).
    """
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        if only is not None and not _wanted(info, only):
            continue
        for dtype in calls.dtypes:
            if dtype in info.supported_dtypes("cpu"):
                run_entry(calls, info, dtype, samples)


def _wanted(info: Any, only: set[str]) -> bool:
    names = {info.name, info.name.rpartition(".")[2], info.aten_name, info.aten_backward_name}
    bare = {name.removeprefix("aten::").partition(".")[0] for name in only}
    return bool(names & bare) or info.name in only


def run_entry(calls: Offered, info: Any, dtype: torch.dtype, samples: int) -> None:
    """Offer what the first ``samples`` OpInfo samples of ``info`` call, forward and backward."""
    for run in entry_runs(info, dtype, samples, "cpu"):
        try:
            with warnings.catch_warnings(), Watch(calls):
                warnings.simplefilter("ignore")
                run()
        except Exception:  # noqa: BLE001 - a sample that fails on the CPU has nothing to teach
            continue


def entry_runs(info: Any, dtype: torch.dtype, samples: int, device: str) -> Iterator[Callable[[], None]]:
    """One function per sample of ``info``, first ones first, that calls the operator on ``device`` and, where
    it has a gradient in ``dtype`` on the CPU, its backward. The samples' own tensors exist before.
    """
    with_gradient = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = _choose(info.sample_inputs(device, dtype, requires_grad=with_gradient), samples)
    for sample in chosen:
        yield functools.partial(_run_sample, info, sample, with_gradient)


def _run_sample(info: Any, sample: Any, with_gradient: bool) -> None:
    out = info(sample.input, *sample.args, **sample.kwargs)
    if with_gradient:
        _backward(out)


def _choose(samples: Iterable[Any], count: int) -> list[Any]:
    """``count`` of the first samples: one scalar or empty input at most, as many of them come first."""
    drawn: list[Any] = []
    try:
        drawn.extend(islice(samples, 4 * count))
    except Exception:  # noqa: BLE001 - some generators need libraries that may be absent
        return drawn[:count]
    small = [sample for sample in drawn if getattr(sample.input, "ndim", 1) == 0 or _is_empty(sample.input)]
    large = [sample for sample in drawn if not any(sample is other for other in small)]
    room = max(1, count - min(len(small), 1))
    return (large[:room] + small)[:count]


def _is_empty(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 0


def _backward(out: Any) -> None:
    results = [item for item in tree_flatten(out)[0] if isinstance(item, torch.Tensor) and item.requires_grad]
    if results:
        # Ones would do for shapes, but the gradient of a normalisation along them is zero: rounding noise.
        with _disable_current_modes():  # drawing them is no part of the program
            gradients = [torch.randn(item.shape, dtype=item.dtype).to(item.device) for item in results]
        torch.autograd.backward(results, gradients)


def collect_program(calls: Offered, program: Any) -> None:
    """Offer every call that ``program()`` makes; it runs on the CPU."""
    with warnings.catch_warnings(), Watch(calls):
        warnings.simplefilter("ignore")
        program()


# On a PrivateUse1 device these carry what another overload carries on the CPU, with the same leading
# arguments.
_DEVICE_FORMS = {
    "aten::convolution": "aten::convolution_overrideable",
    "aten::convolution_backward": "aten::convolution_backward_overrideable",
}


def device_form(op: str) -> str | None:
    """The overload that reaches an out-of-tree device in place of ``op``; None where it is ``op`` itself."""
    return _DEVICE_FORMS.get(op)
