"""Pairing the op a program called with the kernel that ran for it.

A functional op often executes its ``.out`` form, and a composite executes something else
altogether, so a gap list made from executed kernels alone names ops nobody calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

import torchneuron_backend
from results.events import OpCall
from results.vocabulary import Route


class PairingMode(TorchDispatchMode):
    """Takes the simulator's trace of executed kernels after every op dispatched.

    It costs some microseconds an op and reaches autograd's threads, since torch carries dispatch
    modes there. Kernels that run outside any dispatched op pair with themselves, and so do those that a
    higher-order operator runs, such as the branch of a ``cond``.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._pairs: Counter[tuple[str, str, str, str]] = Counter()

    def __enter__(self) -> PairingMode:
        torchneuron_backend.start_op_trace()
        super().__enter__()
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        super().__exit__(kind, value, trace)
        torchneuron_backend.stop_op_trace()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            return func(*args, **(kwargs or {}))
        torchneuron_backend.take_op_trace()
        result = func(*args, **(kwargs or {}))
        called = overload_name(func)
        for executed, dtype, route in torchneuron_backend.take_op_trace():
            self._pairs[called, executed, dtype, route] += 1
        return result

    def calls(self) -> tuple[OpCall, ...]:
        """The pairs seen, with counts and without times."""
        from results.calls import merge

        return merge(
            [
                OpCall(
                    called=called,
                    executed=executed,
                    dtype=dtype,
                    device_calls=count if route == Route.NATIVE else 0,
                    fallback_calls=0 if route == Route.NATIVE else count,
                )
                for (called, executed, dtype, route), count in self._pairs.items()
            ]
        )


def overload_name(func: Any) -> str:
    """Name of an ``OpOverload`` as ``namespace::name.overload``, the default overload without suffix."""
    namespace, _, rest = str(func.name()).partition("::")
    return f"{namespace}::{rest}"
