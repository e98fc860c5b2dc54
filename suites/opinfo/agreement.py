"""Whether a device gives the CPU's numbers, one operator of op_db at a time, forward and backward.

Stricter than the cases: equal to the last bit is told from equal within tolerance, random operators are
compared too, under one seed, and gradients are.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import torch

from results.vocabulary import Outcome
from suites.compare import compare
from suites.device import Tolerance
from suites.opinfo.entries import OP_DB, dtype_of, entries
from suites.opinfo.samples import Call, chosen_samples, place, seed_everything, tensors_in
from suites.opinfo.subject import stable_seed
from suites.opinfo.traits import UNINITIALISED, load_traits
from suites.result import qualified_name
from suites.values import EXACT


class Verdict(StrEnum):
    """What the samples of one operator came to, in one direction; the worst decides."""

    DIFFERS = "differs"
    RAISED = "raised"
    REFUSED = "refused"
    CLOSE = "within tolerance"
    EQUAL = "equal"
    NOT_RUN = "not run"


@dataclasses.dataclass(frozen=True, slots=True)
class Agreement:
    """One direction of one operator.

    Attributes:
        verdict: of the worst sample.
        detail: what differs, what was raised, or why nothing was run.
        samples: how many were run on both.
    """

    verdict: Verdict
    detail: str = ""
    samples: int = 0


def agree(op: str, dtype: str, device: str) -> tuple[Agreement, Agreement]:
    """Forward and backward of the operator on ``device`` against the CPU, in the same dtype.

    Backward is by ``torch.autograd.grad``, of the outputs op_db says to differentiate, by every input that
    requires it, with random cotangents that are the same on both sides.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _forward(op, dtype, device), _backward(op, dtype, device)


def _forward(op: str, dtype: str, device: str) -> Agreement:
    if load_traits().uncompared.get(op) == UNINITIALISED:
        return Agreement(Verdict.NOT_RUN, UNINITIALISED)
    entry, seed = entries(OP_DB)[op], stable_seed(op)
    if dtype_of(dtype) not in entry.dtypes:
        return Agreement(Verdict.NOT_RUN, f"op_db lists no {dtype}")

    def run(sample: Call, where: str) -> Any:
        call = place(sample, where, op, load_traits())
        seed_everything(seed, where)
        result = entry.run(call)
        # What it wrote into its arguments is a result too; some it wants on the host, even here.
        return [result, [tensor.to(where) for tensor in call.tensors()]]

    return _all_samples(lambda: chosen_samples(entry, dtype_of(dtype), seed), run, op, device)


def _backward(op: str, dtype: str, device: str) -> Agreement:
    entry, seed = entries(OP_DB)[op], stable_seed(op)
    if dtype_of(dtype) not in entry.gradient_dtypes:
        return Agreement(Verdict.NOT_RUN, f"op_db lists no gradient in {dtype}")

    def run(sample: Call, where: str) -> Any:
        call = place(sample, where, op, load_traits())
        seed_everything(seed, where)
        result = call.differentiated(entry.run(call))
        outputs = [leaf for leaf in tensors_in(result) if leaf.requires_grad]
        inputs = [tensor for tensor in call.tensors() if tensor.requires_grad]
        if not outputs or not inputs:
            raise _NothingToDifferentiate
        seed_everything(seed)
        cotangents = [torch.randn(out.shape, dtype=out.dtype).to(out.device) for out in outputs]
        return list(torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True))

    return _all_samples(
        lambda: chosen_samples(entry, dtype_of(dtype), seed, requires_grad=True), run, op, device
    )


class _NothingToDifferentiate(Exception):
    """No output depends on an input that requires a gradient."""


def _all_samples(
    samples: Callable[[], Sequence[Any]], run: Callable[[Any, str], Any], op: str, device: str
) -> Agreement:
    try:
        generated = samples()
    except Exception as error:  # noqa: BLE001 - generators run any code; that is not the device's fault
        return Agreement(Verdict.NOT_RUN, f"op_db could not generate samples: {qualified_name(error)}")
    verdicts: list[tuple[Verdict, str]] = []
    reason = "op_db has no samples"
    for sample in generated:
        try:
            expected = run(sample, "cpu")
        except _NothingToDifferentiate:
            reason = "no output depends on an input that requires a gradient"
            continue
        except Exception as error:  # noqa: BLE001 - what the CPU cannot run proves nothing of a device
            reason = f"the CPU raises {qualified_name(error)}"
            continue
        verdicts.append(_one_sample(sample, run, expected, op, device))
    if not verdicts:
        return Agreement(Verdict.NOT_RUN, reason)
    worst, detail = min(verdicts, key=lambda verdict: list(Verdict).index(verdict[0]))
    return Agreement(worst, detail, len(verdicts))


def _one_sample(
    sample: Any, run: Callable[[Any, str], Any], expected: Any, op: str, device: str
) -> tuple[Verdict, str]:
    try:
        actual = run(sample, device)
    except Exception as error:  # noqa: BLE001 - what a device raises is the result, whatever it is
        refused = isinstance(error, NotImplementedError) and "does not support" in str(error)
        return (Verdict.REFUSED if refused else Verdict.RAISED), f"{qualified_name(error)}: {error}"[:300]
    # An operator without numbers to compare (an empty result) agrees if shape and dtype do.
    exact = compare(actual, expected, lambda _: EXACT, device=device)
    if exact.outcome is not Outcome.FAILED_NUMERIC:
        return Verdict.EQUAL, ""
    close = compare(
        actual, expected, lambda dtype: _tolerance(op, dtype), device=device, scalar_dtype="float32"
    )
    if close.outcome is not Outcome.FAILED_NUMERIC:
        return Verdict.CLOSE, exact.message
    return Verdict.DIFFERS, close.message


def _tolerance(op: str, dtype: str) -> Tolerance:
    """That of ``torch.testing.assert_close``, or wider where the traits say why."""
    from torch.testing._comparison import default_tolerances

    return load_traits().tolerance(op, dtype, Tolerance(*default_tolerances(dtype_of(dtype))))
