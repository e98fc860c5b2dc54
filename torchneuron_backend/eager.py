"""The two engines of eager mode: what runs an operator that the lowering table has as native.

``host``, the default, runs PyTorch's own kernel on device memory: fast, and right by construction.
``compiled`` runs a program compiled for this one call, as the chip does: the proof that the table is true.
A program is made at the first call of each signature (operator; dtype, sizes and strides of each tensor;
value of each number and flag) and kept in memory and on disk, in the compiler's cache. A call without a
program is not native for this engine: it falls back, is counted so, and `refused` says why.

Both are chosen for the process, by ``TORCHNEURON_EAGER`` or by call, and give the same results up to
rounding. A program does not check the values of indices, as the host's kernels do.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch

from torchneuron_backend._registration import load_extension

VARIABLE = "TORCHNEURON_EAGER"
Engine = Literal["host", "compiled"]

# A program takes some tens of kilobytes; of more signatures than these the oldest are forgotten.
_PROGRAMS_KEPT = 20_000


class Refused(NamedTuple):
    """A call that the table has as native and that has no program: overload, signature, and the reason."""

    operator: str
    signature: str
    reason: str


@dataclass(frozen=True)
class Statistics:
    """Programs since the process began: ``compiled`` here, ``loaded`` from the cache on disk, ``refused``."""

    compiled: int
    loaded: int
    refused: int


_programs: dict[bytes, Any] = {}
_refused: dict[str, Refused] = {}
_counts = {"compiled": 0, "loaded": 0}
_lock = threading.RLock()


def _new_lock() -> None:
    global _lock
    _lock = threading.RLock()


# Another thread may hold the lock at the moment of the fork.
os.register_at_fork(after_in_child=_new_lock)


def set_engine(engine: Engine) -> None:
    """From now on, in all threads, native operators run on ``engine``. Raises ValueError for another name."""
    if engine not in get_args(Engine):
        raise ValueError(f"{engine!r} is not an engine for eager mode: use 'host' or 'compiled'.")
    if engine == "compiled":
        load_extension().set_compiled_engine(_programs, _make)
    else:
        load_extension().set_compiled_engine(None, None)


def get_engine() -> Engine:
    """The engine in force."""
    return "compiled" if load_extension().has_compiled_engine() else "host"


@contextmanager
def engine(name: Engine) -> Iterator[None]:
    """``name`` is the engine inside, for all threads, and the one before it again afterwards."""
    before = get_engine()
    set_engine(name)
    try:
        yield
    finally:
        set_engine(before)


def set_from_environment() -> None:
    """Follow TORCHNEURON_EAGER, if it is set. Raises ValueError when it names no engine."""
    name = os.environ.get(VARIABLE)
    if name:
        try:
            set_engine(name)  # type: ignore[arg-type]
        except ValueError as error:
            raise ValueError(f"{VARIABLE}: {error}") from None


def refused() -> list[Refused]:
    """The distinct calls that had no program so far, in the order in which they came."""
    with _lock:
        return list(_refused.values())


def statistics() -> Statistics:
    """How many programs there have been."""
    with _lock:
        return Statistics(**_counts, refused=len(_refused))


def forget() -> None:
    """Forget all programs and refusals in memory; those on disk stay."""
    with _lock:
        _programs.clear()
        _refused.clear()
        _counts.update(compiled=0, loaded=0)


def _make(key: bytes, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The program for a call that is seen for the first time, or None: the device asks, in any thread."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _lock, _disable_current_modes(), torch.no_grad():
        if key in _programs:  # another thread was faster
            return _programs[key]
        program = _find(name, args, kwargs)
        if len(_programs) >= _PROGRAMS_KEPT:
            del _programs[next(iter(_programs))]
        _programs[key] = program
        return program


def _find(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The program, or None where there is none. Raises what the host's kernel raises."""
    from torchneuron_backend.compiler.call import Call, HostKernelError
    from torchneuron_backend.compiler.call_program import find
    from torchneuron_backend.compiler.errors import CallRefusedError
    from torchneuron_backend.compiler.graph import overload_of

    def accept(dtype: torch.dtype | None) -> bool:
        """A factory's dtype is that of its result, and may be one that the table has not."""
        return call.takes_tensors() or dtype is None or load_extension().is_native(name, dtype)

    signature = name
    try:
        call = Call(overload_of(name), args, kwargs)
        signature = str(call)
        found = find(call, accept)
    except HostKernelError as raised:
        raise raised.error.with_traceback(None) from None
    except CallRefusedError as error:
        _refused[signature] = Refused(name, signature, str(error))
        return None
    if found.program is not None:
        _counts["loaded" if found.cached else "compiled"] += 1
    return found.program
