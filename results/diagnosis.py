"""What category a failure is of, by what happened and by how its message begins.

Used to propose an expectation and to see whether a failure is still the one that was declared. What is not
recognised has no category: a person says it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from results.vocabulary import Category, Outcome

_BY_OUTCOME: Mapping[Outcome, Category] = {
    Outcome.FAILED_NUMERIC: Category.NUMERICS,
    Outcome.CRASHED: Category.CRASH,
    Outcome.TIMED_OUT: Category.SLOW,
    Outcome.OUT_OF_MEMORY: Category.MEMORY,
    Outcome.VACUOUS: Category.HARNESS_GAP,
}

_DEVICE = r"(?:aten::\S+ )?(?:The|the) \w+ device does not support "
_BACKEND = r"Could not run 'aten::[^']+' with arguments from the "
_BY_MESSAGE: Sequence[tuple[str, Category]] = (
    (_DEVICE + r"sparse ", Category.SPARSE),
    (_BACKEND + r"'Sparse\w*' backend", Category.SPARSE),
    (_DEVICE + r"(?:NestedTensor|nested tensors)", Category.NESTED_TENSOR),
    (_BACKEND + r"'NestedTensor\w*' backend", Category.NESTED_TENSOR),
    (_DEVICE + r"forward-mode ", Category.FORWARD_AD),
    (r"Trying to use forward AD with ", Category.FORWARD_AD),
    (_DEVICE + r"quantized tensors", Category.PER_CHANNEL_QUANTIZATION),
    (_DEVICE + r"the dtype ", Category.DTYPE),
    (r'"\w+" not implemented for \'\w+\'', Category.DTYPE),
    (_DEVICE + r"(?:graph capture|CUDA graphs)", Category.CUDA_GRAPHS),
    (r"torch\.\w+\.\w+: the \w+ device does not support graph capture", Category.CUDA_GRAPHS),
    (r"cannot lower aten::", Category.NO_NATIVE_LOWERING),
    (r"The operator '?aten::\S+ is not currently (?:implemented|supported) ", Category.NO_NATIVE_LOWERING),
    (r"(?:Tensor-likes|Scalars) are not (?:close|equal)!", Category.NUMERICS),
    (r'".*" does not match ".*"\Z', Category.ERROR_MESSAGE),
)
_PATTERNS = [(re.compile(pattern, re.DOTALL), category) for pattern, category in _BY_MESSAGE]


def category_of(outcome: Outcome, message: str) -> Category | None:
    """The category of a failure, ``None`` where neither its outcome nor its message tells."""
    known = _BY_OUTCOME.get(outcome)
    if known is not None:
        return known
    text = message.lstrip()
    return next((category for pattern, category in _PATTERNS if pattern.match(text)), None)


def first_line(exception: str, message: str) -> str:
    """A failure in one line: the bare name of what was raised and how its message begins."""
    lines = message.strip().splitlines()
    first = " ".join("".join(c if c.isprintable() else " " for c in lines[0]).split()) if lines else ""
    return ": ".join(filter(None, (exception.rpartition(".")[2], first)))
