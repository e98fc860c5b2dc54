"""What the compile route raises.

Every error of the compiler is a :class:`CompilerError`, so a caller can tell "the compiler said no" from a
bug. Dynamo wraps what a backend raises in ``BackendCompilerFailed``; :func:`find_compiler_error` looks
through that.
"""

from __future__ import annotations

from collections.abc import Mapping


class CompilerError(RuntimeError):
    """Base of everything the compiler refuses or fails at."""


class UnsupportedOperatorError(CompilerError):
    """The graph holds ATen overloads that do not lower to StableHLO.

    ``operators`` names them (``aten::cumprod``, ``aten::add.Tensor``), sorted and without repeats;
    ``details`` gives one line of reason for each.
    """

    def __init__(self, details: Mapping[str, str]) -> None:
        self.details = dict(sorted(details.items()))
        self.operators = list(self.details)
        lines = [f"  {name}: {reason}" for name, reason in self.details.items()]
        noun = "operator does" if len(lines) == 1 else "operators do"
        super().__init__("\n".join([f"{len(lines)} {noun} not lower to StableHLO:", *lines]))

    def __reduce__(self) -> tuple[type, tuple[dict[str, str]]]:
        return type(self), (self.details,)


class LoweringError(CompilerError):
    """The graph as a whole does not lower although each of its operators does."""


class DynamicShapeError(CompilerError):
    """A symbolic shape reached the compiler: executables are built for fixed shapes."""


class OptionError(CompilerError, ValueError):
    """``torch.compile(options=...)`` holds a key that the neuron compiler does not know."""


class CallRefusedError(CompilerError):
    """A single call has no program, for the reason given; ``lasting`` where trying again is of no use."""

    def __init__(self, reason: str, lasting: bool = True) -> None:
        super().__init__(reason)
        self.lasting = lasting


class ExecutableError(CompilerError):
    """XLA refused a StableHLO program, or an executable failed while it ran."""


class InternalCompilerError(CompilerError):
    """The compiler itself broke; the exception that it broke with is the cause."""


def find_compiler_error(error: BaseException | None) -> CompilerError | None:
    """The CompilerError inside ``error``: itself, or what Dynamo and AOTAutograd wrapped; None if there is
    none.
    """
    seen: set[int] = set()
    pending = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        if isinstance(current, CompilerError):
            return current
        seen.add(id(current))
        pending += [getattr(current, "inner_exception", None), current.__cause__, current.__context__]
    return None
