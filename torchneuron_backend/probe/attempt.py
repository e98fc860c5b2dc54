"""One attempt: does this overload, on these examples, lower, compile, run and give the CPU's answer?

The answer is one of ``STATUSES``. Everything runs in a forked child, since every part of a compiler can die.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from ..compiler import generator_state, isolate
from ..compiler.errors import CompilerError
from ..compiler.executable import Executable
from ..compiler.lowering import RandomOperatorError, decompose, summarise
from ..compiler.rewrites import REWRITES
from ..compiler.rewrites.random import numbers_drawn
from ..compiler.single import tensors_of, to_stablehlo, trace
from .calls import Call
from .conditions import CONDITIONS
from .gauges import without_choice

NATIVE = "native"
STATUSES = (
    NATIVE,
    "no_decomposition",
    "no_stablehlo_legalization",
    "data_dependent_shape",
    "dtype",
    "compiler_crash",
    "wrong_result",
    "timeout",
    "untraceable",
)


@dataclass(frozen=True)
class Outcome:
    """``status`` is one of STATUSES. A native operator has a ``detail`` only where it is so on a condition
    (``when``, of `conditions.CONDITIONS`): what becomes of the other calls.
    """

    status: str
    detail: str = ""
    when: str = ""


def measure(examples: list[Call], timeout_s: float = 60.0) -> Outcome:
    """As :func:`attempt`; but where a condition tells the examples that fail from those that do not, the
    operator is native on this condition.
    """
    outcome = attempt(examples, timeout_s)
    if outcome.status == NATIVE:
        return outcome
    for name, condition in CONDITIONS.items():
        inside = [call for call in examples if condition(call.args, call.kwargs)]
        outside = [call for call in examples if not condition(call.args, call.kwargs)]
        if not inside or not outside or attempt(inside, timeout_s).status != NATIVE:
            continue
        if all(attempt([call], timeout_s).status != NATIVE for call in outside):
            return Outcome(NATIVE, f"else {outcome.status}: {outcome.detail}", name)
    return outcome


def attempt(examples: list[Call], timeout_s: float = 60.0) -> Outcome:
    """The worst that happens over ``examples``; they are tried in order and the first failure ends the
    attempt.
    """
    stage, done = "tracing", 0
    try:
        for message in isolate.stream(lambda emit: _work(examples, emit), timeout_s=timeout_s):
            if message.tag == "stage":
                stage, done = message.value
            elif message.tag == "outcome":
                return _with_share(Outcome(*message.value), done, len(examples))
    except isolate.ChildTimeoutError:
        return Outcome("timeout", f"{stage} took more than {timeout_s:g} s")
    except isolate.ChildDiedError as error:
        died = Outcome("compiler_crash", f"{stage}: {error.signal_name or 'exit'} {error.last_words}".strip())
        return _with_share(died, done, len(examples))
    except isolate.ChildFailedError as error:
        return Outcome("untraceable", f"{stage}: {error}")
    return Outcome(NATIVE)


def _with_share(outcome: Outcome, done: int, total: int) -> Outcome:
    """Say so where some examples do lower: such an operator is nearly native."""
    if outcome.status == NATIVE or not done:
        return outcome
    return Outcome(outcome.status, f"{outcome.detail} (call {done + 1} of {total}; those before lower)")


def _work(examples: list[Call], emit: Callable[[str, Any], None]) -> None:
    for index, call in enumerate(examples):

        def enter(stage: str, index: int = index) -> None:
            emit("stage", (stage, index))

        outcome = _try_call(call, enter)
        if outcome.status != NATIVE:
            emit("outcome", (outcome.status, outcome.detail))
            return


@dataclass(frozen=True)
class _Program:
    """What is compiled for a call: ``target`` on these arguments, and what it should return.

    That of a random operator has the generator's ``state`` before the arguments, and ``state_after`` behind
    what it returns.
    """

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    returned: Any
    state: tuple[torch.Tensor, ...] = ()
    state_after: tuple[torch.Tensor, ...] = ()


def _program_of(call: Call) -> _Program:
    if numbers_drawn(call.overload, call.args, call.kwargs):
        return _random_program(call)
    returned = call.overload(*_cloned(call.args), **_cloned(call.kwargs))
    if isinstance(returned, bool):
        # The schema has no place for a tensor; that Python reads it is no part of what is computed.
        target = REWRITES.get(call.overload, call.overload)
        return _Program(target, call.args, call.kwargs, torch.tensor(returned))
    return _Program(call.overload, call.args, call.kwargs, returned)


def _random_program(call: Call) -> _Program:
    torch.manual_seed(0)
    torch.rand(5)  # into the middle of a block
    before = generator_state.read(torch.default_generator)
    returned = call.overload(*_cloned(call.args), **_cloned(call.kwargs))
    after = generator_state.read(torch.default_generator)
    return _Program(call.overload, call.args, call.kwargs, returned, tuple(before), tuple(after))


def _try_call(call: Call, enter: Callable[[str], None]) -> Outcome:
    enter("tracing")
    program = _program_of(call)
    expected = [*tensors_of(program.returned), *program.state_after]
    try:
        graph, inputs = trace(program.target, program.args, program.kwargs, program.returned)
        graph = decompose(graph)
    except Exception as error:  # noqa: BLE001 - every refusal to trace is an answer
        return _untraceable(error)
    enter("lowering")
    try:
        text = to_stablehlo(graph, draws=bool(program.state))
    except Exception as error:  # noqa: BLE001 - every refusal to lower is an answer
        return _unlowerable(error)
    enter("compiling")
    try:
        executable = Executable(text)
        enter("running")
        computed = executable.run([*program.state, *inputs])
    except CompilerError as error:
        return Outcome("no_stablehlo_legalization", f"XLA: {_first_line(error)}")
    if [(each.shape, each.dtype) for each in computed] == [(each.shape, each.dtype) for each in expected]:
        computed = without_choice(call.overload, computed)
        expected = without_choice(call.overload, expected)
    return compare(call.overload, computed, expected)


def _cloned(value: Any) -> Any:
    return tree_map_only(torch.Tensor, torch.clone, value)


def _untraceable(error: Exception) -> Outcome:
    name, text = type(error).__name__, str(error)
    if isinstance(error, RandomOperatorError):
        return Outcome("no_decomposition", _first_line(error))
    if "DataDependent" in name or "DynamicOutputShape" in name or "data-dependent" in text:
        return Outcome("data_dependent_shape", f"{name}: {_first_line(error)}")
    return Outcome("untraceable", f"{name}: {_first_line(error)}")


def _unlowerable(error: Exception) -> Outcome:
    text = str(error)
    unknown = re.search(r"torch\.operator.{0,4}\"?(?:name = )?\"?torch\.([\w.]+)", text)
    if unknown or "torch.operator" in text:
        return Outcome(
            "no_decomposition", f"unknown to Torch-MLIR: {unknown.group(1) if unknown else summarise(error)}"
        )
    if (
        "complex" in text
        or "Unsupported dtype" in text
        or "Could not map Torch dtype" in text
        or isinstance(error, KeyError)
    ):
        return Outcome("dtype", summarise(error))
    return Outcome("no_stablehlo_legalization", summarise(error))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def compare(overload: Any, computed: list[torch.Tensor], expected: list[torch.Tensor]) -> Outcome:
    """Compare with the CPU: exact for integers, :func:`tolerance` for floats, shape and dtype for new
    memory.
    """
    if len(computed) != len(expected):
        return Outcome("wrong_result", f"{len(computed)} results for {len(expected)}")
    for index, (ours, theirs) in enumerate(zip(computed, expected, strict=True)):
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            return Outcome(
                "wrong_result",
                f"result {index}: {ours.dtype}{[*ours.shape]} for {theirs.dtype}{[*theirs.shape]}",
            )
        if "empty" in overload._schema.name:
            continue
        rtol, atol = tolerance(theirs)
        close = torch.isclose(ours.double(), theirs.double(), rtol=rtol, atol=atol, equal_nan=True)
        if not bool(close.all()):
            wrong = int((~close).sum())
            return Outcome(
                "wrong_result", f"result {index}: {wrong} of {close.numel()} elements differ from the CPU's"
            )
    return Outcome(NATIVE)


def tolerance(expected: torch.Tensor) -> tuple[float, float]:
    """(relative, absolute) tolerance against the CPU for one operator in the dtype of ``expected``.

    A decomposition rounds after each of its steps and sums in another order than the CPU's kernel. Eight
    roundings bound what was seen in the two-byte dtypes; float32 gets 256, as its kernels approximate
    transcendental functions to a few units and sum up to thousands of terms. The absolute part is the same
    number of units of the largest finite value, for results that cancel.
    """
    if not expected.dtype.is_floating_point:
        return 0.0, 0.0
    roundings = 256 if expected.dtype in (torch.float32, torch.float64) else 8
    unit = roundings * torch.finfo(expected.dtype).eps
    finite = expected[expected.isfinite()]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    return unit, unit * largest
