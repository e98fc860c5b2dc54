"""Faults on demand: a device that misbehaves when told to, so that a harness can be tested against it.

A fault is put in one operator overload, the one that *executes* (as `torchneuron_backend.op_counters`
names it), and fires once, at its Nth call from then on. By environment, before the device loads::

    TORCHNEURON_FAULTS="aten::mm:hang@3;aten::add.Tensor:crash@1"

or by call: ``faults.set("aten::mm", "hang", at=3)``, ``faults.clear()``. The kinds:

=================  ====================================================================
crash              segmentation fault (SIGSEGV)
abort              abort() (SIGABRT)
hang               the call never returns; the GIL is free
oom                torch.OutOfMemoryError
error              RuntimeError
nan                the first floating-point result is all NaN
wrong_dtype        the first result comes in another dtype
wrong_shape        the first result has one dimension more
nondeterminism     the first floating-point result is off by up to 0.05 %, differently each time
silent_fallback    the call runs on the host and is counted as native
late_error         the call succeeds; the next synchronisation raises RuntimeError
=================  ====================================================================

With asynchronous launch, crash, abort, hang and error strike a queued call in the device's queue: the call
itself returns, and an error is raised by the next synchronisation. Calls struck by another are waited for.

Data movement (``aten::_copy_from``), allocation and views take only those that replace the call:
crash, abort, hang, oom and error.
"""

import os
import re

from torchneuron_backend._registration import load_extension

VARIABLE = "TORCHNEURON_FAULTS"
_FAULT = re.compile(r"(?P<op>\w+::\w+(?:\.\w+)?):(?P<kind>\w+)(?:@(?P<at>\d+))?")


def kinds() -> list[str]:
    """The kinds of fault there are."""
    return list(load_extension().fault_kinds())


def set(op: str, kind: str, at: int = 1) -> None:
    """Put fault ``kind`` in overload ``op``, to fire at its ``at``-th call from now (1: the next one).

    Raises ValueError, in one sentence, when there is no such operator or kind, or ``at`` is below 1.
    """
    load_extension().arm_fault(op, kind, at)


def clear() -> None:
    """Remove all faults that have not fired."""
    load_extension().disarm_faults()


def parse(text: str) -> list[tuple[str, str, int]]:
    """``"op:kind@N;op:kind"`` as a list of (op, kind, N). Raises ValueError naming the part that is wrong."""
    faults = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        match = _FAULT.fullmatch(part)
        if match is None:
            raise ValueError(
                f"'{part}' is not a fault: write OPERATOR:KIND or OPERATOR:KIND@N, as in 'aten::mm:hang@3'."
            )
        faults.append((match["op"], match["kind"], int(match["at"] or 1)))
    return faults


def arm_from_environment() -> None:
    """Set the faults that ``TORCHNEURON_FAULTS`` asks for. Raises ValueError naming the variable."""
    for op, kind, at in _from_environment():
        try:
            set(op, kind, at)
        except ValueError as error:
            raise ValueError(f"{VARIABLE}: {error}") from None


def _from_environment() -> list[tuple[str, str, int]]:
    try:
        return parse(os.environ.get(VARIABLE, ""))
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: {error}") from None
