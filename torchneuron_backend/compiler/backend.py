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
from torch import nn
from torch.fx import GraphModule

from . import artefacts, memory, metrics, partition
from .errors import CompilerError, DynamicShapeError, OptionError, UnsupportedOperatorError
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


def compile_graph(
    module: GraphModule, kind: str, options: Options = Options()
) -> Callable[[list[Any]], list[Any]]:
    """An executable for an ATen graph: called with a list of arguments, which it empties, returns a list.

    ``kind`` (forward, backward, inference) is for the metrics. Raises CompilerError unless the options have
    ``fallback_execution``.
    """
    try:
        return _compile(module, kind, options)
    except CompilerError as error:
        metrics.record_failure(kind, error)
        if not options.fallback_execution:
            raise
        from torch._functorch.aot_autograd import make_boxed_func

        log.warning("a %s graph does not compile and runs eagerly: %s", kind, error)
        metrics.record_fallback()
        return make_boxed_func(module.forward)


def _compile(module: GraphModule, kind: str, options: Options) -> Callable[[list[Any]], list[Any]]:
    record = metrics.GraphRecord(kind)
    eager = partition.higher_order_calls(module)
    try:
        if eager:
            raise UnsupportedOperatorError({partition.call_name(node): why for node, why in eager.items()})
        run = _compile_whole(module, record)
    except UnsupportedOperatorError as error:
        if not options.partition:
            raise
        run = _compile_pieces(module, record, error)
    metrics.record_graph(record)
    return _counted(run, record)


def _compile_whole(module: GraphModule, record: metrics.GraphRecord) -> Callable[[list[Any]], list[Any]]:
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


def _compile_pieces(
    module: GraphModule, record: metrics.GraphRecord, error: UnsupportedOperatorError
) -> Callable[[list[Any]], list[Any]]:
    """Compile what lowers of a graph that does not lower as a whole, for the reasons in ``error``.

    Raises ``error`` where that is nothing.
    """
    started = time.perf_counter()
    eager = partition.higher_order_calls(module)
    # With those in it the graph was not tried, and nothing is known of its other calls.
    reasons = artefacts.find_unsupported(module) if eager else error.details
    eager |= partition.unlowerable_calls(module, reasons)
    split = partition.split(module, eager)
    record.lowering_seconds += time.perf_counter() - started
    if not split.compiled:
        raise error
    for name in split.compiled:
        setattr(split.module, name, _Piece(_compile_whole(getattr(split.module, name), record)))
    record.operators_eager.update(split.calls_eager)

    def run(arguments: list[Any]) -> list[Any]:
        values = list(arguments)
        arguments.clear()
        return list(split.module.forward(*values))

    return run


class _Piece(nn.Module):
    """A compiled piece in the place of the submodule it was compiled from."""

    def __init__(self, run: Callable[[list[Any]], list[Any]]) -> None:
        super().__init__()
        self._run = run

    def forward(self, *arguments: Any) -> Any:
        results = self._run(list(arguments))
        return results[0] if len(results) == 1 else results


def _counted(
    run: Callable[[list[Any]], list[Any]], record: metrics.GraphRecord
) -> Callable[[list[Any]], list[Any]]:
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
