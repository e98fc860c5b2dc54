"""Operator cases, one at a time and many, for the tests of the checks."""

from __future__ import annotations

from results.plan import Case
from results.vocabulary import Outcome
from suites.opinfo import Selection, run_case
from suites.opinfo.catalog import cases
from suites.result import CaseResult
from tests.suites.fakes import FakeDevice

SPREAD = (
    "abs", "add", "addmm", "amax", "arange", "argmax", "as_strided", "baddbmm", "bernoulli", "bitwise_and",
    "cat", "clamp", "copysign", "cumsum", "diff", "div.floor_rounding", "einsum", "eq", "exp", "fft.fft",
    "gather", "index_put", "index_select", "linalg.cholesky", "linalg.svd", "logaddexp", "masked_fill",
    "max.binary", "max.reduction_with_dim", "mean", "nn.functional.conv2d", "nn.functional.gelu",
    "nn.functional.relu", "nn.functional.softmin", "nonzero", "pow", "resize_", "scatter_add", "sort",
    "squeeze", "stack", "sum", "take", "topk", "transpose", "tril", "uniform", "var", "where", "xlogy",
)  # fmt: skip
"""Operators of every kind that has ways of its own with memory, dtypes or arguments."""


def case_of(op: str, dtype: str = "float32", check: str = "forward") -> Case:
    """The one case of an operator, a dtype and a check."""
    (case,) = cases(Selection("test", (op,)), (dtype,), (check,))
    return case


DTYPES = ("float32", "int64", "bool", "bfloat16")


def on_itself(check: str, dtypes: tuple[str, ...] = DTYPES) -> list[CaseResult]:
    """What a check says of the CPU as a device: one result for each of `SPREAD` and each dtype.

    Raises:
        AssertionError: it finds the CPU wrong.
    """
    chosen = cases(Selection("spread", SPREAD), dtypes, (check,))
    found = {case.id: run_case(case, FakeDevice()) for case in chosen}
    wrong = {name: result.message for name, result in found.items() if not _is_right(result)}
    assert wrong == {}
    return list(found.values())


def _is_right(result: CaseResult) -> bool:
    return result.outcome in (Outcome.PASSED, Outcome.UNSUPPORTED, Outcome.SKIPPED_UPSTREAM)
