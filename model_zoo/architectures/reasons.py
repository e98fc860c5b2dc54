"""Why a pair did not get through: a closed list, so that reports can count by it."""

from __future__ import annotations

import re
from enum import StrEnum


class Reason(StrEnum):
    """Kinds of leftovers; each one is listed in the report, none is dropped."""

    NOT_IMPORTABLE = "not importable"
    NOT_A_FORWARD_MODEL = "not a forward model"
    PACKAGE_MISSING = "optional package missing"
    CONFIG_INVALID = "configuration invalid"
    TOO_BIG = "too big"
    NO_INPUT_RULE = "no rule for an input"
    WRONG_INPUTS = "inputs not accepted"
    SHAPE_MISMATCH = "shapes do not match"
    INDEX_OUT_OF_RANGE = "index out of range"
    NOTHING_DIFFERENTIABLE = "nothing differentiable"
    OUT_OF_TIME = "out of time"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    OTHER = "other"


_BY_TEXT = (
    (
        r"requires the .*(library|package)|No module named|is not installed|requires_backends|pip install",
        "PACKAGE_MISSING",
    ),
    (r"DefaultCPUAllocator|can't allocate|MemoryError", "OUT_OF_MEMORY"),
    (r"index .*out of|out of range|IndexError|out of bounds", "INDEX_OUT_OF_RANGE"),
    (
        r"mat1 and mat2|size of tensor|shape|must match|expected input|sizes|divisible|dimension|einsum",
        "SHAPE_MISMATCH",
    ),
    (r"must (specify|provide)|missing \d+ required|You have to|NoneType", "WRONG_INPUTS"),
)


def reason_of(stage: str, error: BaseException) -> Reason:
    """The kind of an error that was raised in a stage (import, config, build, inputs, forward, backward)."""
    text = f"{type(error).__name__}: {error}"
    for pattern, name in _BY_TEXT[:2]:
        if re.search(pattern, text):
            return Reason[name]
    if type(error).__name__ == "TooBigError":
        return Reason.TOO_BIG
    if type(error).__name__ == "InputsError":
        return Reason.NO_INPUT_RULE
    if type(error).__name__ == "NoLossError":
        return Reason.NOTHING_DIFFERENTIABLE
    if stage == "import":
        return Reason.NOT_IMPORTABLE
    if stage in ("config", "build"):
        return Reason.CONFIG_INVALID
    for pattern, name in _BY_TEXT[2:]:
        if re.search(pattern, text):
            return Reason[name]
    return Reason.OTHER
