"""The Dynamo backend ``neuron``: Dynamo -> AOTAutograd -> Torch-MLIR -> StableHLO -> XLA.

A graph with calls that do not lower is split: those run eagerly on the device between compiled pieces.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from . import artefacts, higher_order, memory, metrics, partition
from .bisection import Span
from .errors import (
    CompilerError,
    DynamicShapeError,
    ExecutableError,
    InternalCompilerError,
    LoweringError,
    OptionError,
    UnsupportedOperatorError,
)
from .executable import Executable
from .graph import (
    DYNAMIC_SHAPE_MESSAGE,
    Constant,
    Empty,
    FromInput,
    FromProgram,
    Plan,
    Source,
    make_plan,
    refuse_symbols,
)
from .pieces import Pieces

Run = Callable[[list[Any]], list[Any]]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What ``torch.compile(options=...)`` may say.

    ``partition``: run calls that do not lower eagerly between compiled pieces; if not, they are an error.
    ``fallback_execution``: run a graph that does not compile eagerly instead of raising.
    """

    partition: bool = True
    fallback_execution: bool = False


_KNOWN_OPTIONS = list(Options.__dataclass_fields__)


def neuron(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph, forward and backward.

    ``mode`` is ignored with a warning. ``options`` are those of :class:`Options`; the default of
    ``fallback_execution`` is the opposite of TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION. Raises
    UnsupportedOperatorError, DynamicShapeError and other CompilerErrors, which Dynamo wraps.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import default_partition

    if mode not in (None, "default"):
        _warn_about_mode(mode)
    chosen = _read_options(options or {})
    _refuse_dynamic(example_inputs)

    def compiler(kind: str) -> Callable[..., Any]:
        return lambda graph, _inputs: compile_graph(graph, kind, chosen)

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions={},
        partition_fn=default_partition,
    )(module, example_inputs)


@functools.cache
def _warn_about_mode(mode: str) -> None:
    log.warning("torch.compile(backend='neuron') ignores mode=%r", mode)


def _read_options(options: dict[str, Any]) -> Options:
    unknown = sorted(set(options) - set(_KNOWN_OPTIONS))
    if unknown:
        raise OptionError(
            f"torch.compile(backend='neuron') does not know the options {', '.join(unknown)}; "
            f"it knows {' and '.join(_KNOWN_OPTIONS)}"
        )
    return Options(**{"fallback_execution": _fallback_by_default(), **options})


def _fallback_by_default() -> bool:
    return os.environ.get("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "1").lower() in ("0", "false", "no")


def _refuse_dynamic(example_inputs: Sequence[Any]) -> None:
    """Raise for symbolic shapes, and keep Dynamo from trying them when it sees a second shape.

    Dynamo offers a backend no way to say so per compilation, so this is set for the process.
    """
    import torch._dynamo.config as config

    if not config.assume_static_by_default:
        error = DynamicShapeError(DYNAMIC_SHAPE_MESSAGE)
        metrics.record_failure("forward", error)
        raise error
    refuse_symbols(example_inputs)
    config.automatic_dynamic_shapes = False


def compile_graph(module: GraphModule, kind: str, options: Options = Options()) -> Run:
    """An executable for an ATen graph: called with a list of arguments, which it empties, returns a list.

    ``kind`` (forward, backward, inference) is for the metrics. Raises CompilerError unless the options have
    ``fallback_execution``.
    """
    try:
        return _compile(module, kind, options)
    except CompilerError as error:
        return _failed(module, kind, options, error)
    except Exception as error:  # noqa: BLE001 - whatever broke, the caller is told that it was the compiler
        internal = InternalCompilerError(f"the neuron compiler broke on this graph ({kind}): {error!r}")
        internal.__cause__ = error
        return _failed(module, kind, options, internal)


def _failed(module: GraphModule, kind: str, options: Options, error: CompilerError) -> Run:
    metrics.record_failure(kind, error)
    if not options.fallback_execution:
        raise error
    from torch._functorch.aot_autograd import make_boxed_func

    log.warning("a %s graph does not compile and runs eagerly: %s", kind, error)
    metrics.record_fallback()
    return make_boxed_func(module.forward)


def _compile(module: GraphModule, kind: str, options: Options) -> Run:
    record = metrics.GraphRecord(kind)
    run = _compile_any(higher_order.write_out(module), record, options.partition)
    metrics.record_graph(record)
    return _counted(run, record)


def _compile_any(module: GraphModule, record: metrics.GraphRecord, may_split: bool) -> Run:
    """What runs ``module``: called with a list of arguments, which it empties, it returns a list."""
    eager = partition.higher_order_calls(module)
    try:
        if eager:
            raise UnsupportedOperatorError({partition.call_name(node): why for node, why in eager.items()})
        return _compile_whole(module, record)
    except UnsupportedOperatorError as error:
        if not may_split:
            raise
        return _compile_around(module, eager, record, error)
    except (LoweringError, ExecutableError) as error:
        if not may_split:
            raise
        return _compile_spans(module, record, error)


def _compile_whole(module: GraphModule, record: metrics.GraphRecord) -> Run:
    plan = make_plan(module)
    executable = None
    if plan.results:
        started = time.perf_counter()
        try:
            text = artefacts.lower(plan.module)
        finally:
            # Also the search for the operators at fault.
            lowered = time.perf_counter()
            record.lowering_seconds += lowered - started
        executable = artefacts.build(text)
        record.compile_seconds += time.perf_counter() - lowered
        record.partitions += 1
    record.operators.update(plan.operators)
    return functools.partial(_run, plan, executable)


def _compile_around(
    module: GraphModule,
    eager: dict[Node, str],
    record: metrics.GraphRecord,
    error: UnsupportedOperatorError,
) -> Run:
    """Compile what lowers of a graph around the calls ``eager`` and those that do not lower.

    Raises ``error`` where that is nothing.
    """
    started = time.perf_counter()
    eager = eager | artefacts.refused_calls(module)
    split = partition.split(module, eager)
    record.lowering_seconds += time.perf_counter() - started
    # Without a call at fault, a piece might be the whole graph again.
    if not eager or not split.compiled:
        raise error
    return _join(split, record, lambda piece: _compile_any(piece, record, may_split=True))


def _compile_spans(
    module: GraphModule, record: metrics.GraphRecord, error: LoweringError | ExecutableError
) -> Run:
    """Compile what compiles of a graph that does not as a whole, for no call in particular.

    Raises ``error`` where that is nothing.
    """
    count = len(partition.calls(module))

    def compiles(start: int, end: int) -> bool:
        around = [Span(0, start, True), Span(start, end, False), Span(end, count, True)]
        split = partition.split_at(module, [span for span in around if span.start < span.end])
        attempt = metrics.GraphRecord(record.kind)
        try:
            _compile_whole(getattr(split.module, split.compiled[0]), attempt)
        except CompilerError:
            return False
        finally:
            record.lowering_seconds += attempt.lowering_seconds
            record.compile_seconds += attempt.compile_seconds
        return True

    split = partition.split_at(module, artefacts.spans(module, count, compiles))
    if not split.compiled:
        raise error
    return _join(split, record, lambda piece: _compile_whole(piece, record))


def _join(split: partition.Split, record: metrics.GraphRecord, build: Callable[[GraphModule], Run]) -> Run:
    compiled = {name: build(getattr(split.module, name)) for name in split.compiled}
    record.operators_eager.update(split.calls_eager)
    return Pieces(split.module, compiled)


def _counted(run: Run, record: metrics.GraphRecord) -> Run:
    def counted(arguments: list[Any]) -> list[Any]:
        started = time.perf_counter()
        answer = run(arguments)
        metrics.record_execution(record, time.perf_counter() - started)
        return answer

    # AOTAutograd hands a list over and frees what it can while the graph runs.
    counted._boxed_call = True  # type: ignore[attr-defined]
    return counted


def _run(plan: Plan, executable: Executable | None, arguments: list[Any]) -> list[Any]:
    values = list(arguments)
    arguments.clear()
    results: list[torch.Tensor] = []
    if executable is not None:
        inputs = [*(values[index] for index in plan.inputs), *plan.constants]
        computed = executable.run([memory.to_host(tensor) for tensor in inputs])
        results = [
            memory.to_device(tensor, spec) for tensor, spec in zip(computed, plan.results, strict=True)
        ]
    return [_answer(source, values, results) for source in plan.outputs]


def _answer(source: Source, values: list[Any], results: list[torch.Tensor]) -> Any:
    match source:
        case FromInput(index):
            return values[index]
        case FromProgram(index):
            return results[index]
        case Empty(spec):
            return torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype, device=spec.device)
        case Constant(value):
            return value
