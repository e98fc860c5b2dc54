"""Who marked a test: its own decorators, a parameter's, or the entry it is generated from.

PyTorch's parametrizers (``ops``, ``modules``, ``optims``, ``parametrize``) wrap a test in a function of their
own and put an entry's decorators around that; the test's own decorators lie inside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from suites.skips.evidence import Origin

_PARAMETRIZERS = {
    ("torch.testing._internal.common_device_type", "ops"): Origin.ENTRY,
    ("torch.testing._internal.common_modules", "modules"): Origin.ENTRY,
    ("torch.testing._internal.common_optimizers", "optims"): Origin.ENTRY,
    ("torch.testing._internal.common_utils", "parametrize"): Origin.PARAMETER,
    ("torch.testing._internal.common_utils", "reparametrize"): Origin.PARAMETER,
}
_WRAPPER = "._parametrize_test.<locals>.test_wrapper"
SKIPPED = "__unittest_skip__"
EXPECTED_TO_FAIL = "__unittest_expecting_failure__"


@dataclasses.dataclass(frozen=True, slots=True)
class Marked:
    """Where a mark lies.

    Attributes:
        origin: ``DECORATOR`` for the test's own, else ``ENTRY`` or ``PARAMETER``.
        innermost: the function as the test's file defines it.
    """

    origin: Origin
    innermost: Callable[..., Any]


def layers(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """A test function and what it wraps, the outermost first."""
    seen: set[int] = set()
    layer: Any = getattr(function, "__func__", function)
    while layer is not None and id(layer) not in seen:
        seen.add(id(layer))
        yield layer
        layer = getattr(layer, "__wrapped__", None)


def own_code(function: Callable[..., Any]) -> CodeType | None:
    """The code of the test as its file defines it."""
    *_, innermost = layers(function)
    return getattr(innermost, "__code__", None)


def skip_mark(function: Callable[..., Any]) -> Marked | None:
    """Who put a static skip on a test function; the outermost one, as unittest reports that one."""
    stack = list(layers(function))
    if SKIPPED not in vars(stack[0]):
        return None
    # What wraps a marked function copies its attributes: the mark was set where the reason first is this one.
    reason = vars(stack[0]).get("__unittest_skip_why__")
    depth = 0
    while depth + 1 < len(stack) and _has(stack[depth + 1], SKIPPED, reason):
        depth += 1
    return Marked(_origin(stack[depth:]), stack[-1])


def expected_failure_mark(function: Callable[..., Any]) -> Marked | None:
    """Who said of a test function that it fails."""
    stack = list(layers(function))
    marked = [index for index, layer in enumerate(stack) if EXPECTED_TO_FAIL in vars(layer)]
    if not marked:
        return None
    return Marked(_origin(stack[marked[-1] :]), stack[-1])


def _has(layer: Any, mark: str, reason: Any) -> bool:
    return mark in vars(layer) and vars(layer).get("__unittest_skip_why__") == reason


def _origin(inside: list[Callable[..., Any]]) -> Origin:
    """A parametrizer's wrapper at or inside the layer that carries the mark: the mark is not the test's."""
    for layer in inside:
        code = getattr(layer, "__code__", None)
        if code is None or not code.co_qualname.endswith(_WRAPPER):
            continue
        module = getattr(layer, "__globals__", {}).get("__name__", "")
        found = _PARAMETRIZERS.get((module, code.co_qualname.removesuffix(_WRAPPER)))
        if found is not None:
            return found
    return Origin.DECORATOR
