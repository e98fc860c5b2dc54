"""The Dynamo backend ``neuron``: Dynamo -> AOTAutograd -> Torch-MLIR -> StableHLO -> XLA, whole graphs
only.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from . import memory, metrics
from .errors import CompilerError, DynamicShapeError
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
from .lowering import lower

log = logging.getLogger(__name__)

_KNOWN_OPTIONS = {"fallback_execution"}


def neuron(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph, forward and backward.

    ``mode`` is ignored with a warning. ``options`` reads ``fallback_execution`` (bool): run a graph that does
    not compile eagerly instead of raising; its default is the opposite of
    TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION. Raises UnsupportedOperatorError, DynamicShapeError and other
    CompilerErrors, which Dynamo wraps.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import default_partition

    if mode is not None:
        log.warning("torch.compile(backend='neuron') ignores mode=%r", mode)
    for key in sorted(set(options or {}) - _KNOWN_OPTIONS):
        log.warning("torch.compile(backend='neuron') ignores the option %r", key)
    _refuse_dynamic(example_inputs)
    fall_back = bool((options or {}).get("fallback_execution", _fallback_by_default()))

    def compiler(kind: str) -> Callable[..., Any]:
        return lambda graph, _inputs: compile_graph(graph, kind, fall_back=fall_back)

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions={},
        partition_fn=default_partition,
    )(module, example_inputs)


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


def compile_graph(module: GraphModule, kind: str, *, fall_back: bool = False) -> Callable[[list[Any]], Any]:
    """An executable for an ATen graph: called with a list of arguments, which it empties, returns a list.

    ``kind`` (forward, backward, inference) is for the metrics. Raises CompilerError unless ``fall_back``.
    """
    try:
        return _compile(module, kind)
    except CompilerError as error:
        metrics.record_failure(kind, error)
        if not fall_back:
            raise
        from torch._functorch.aot_autograd import make_boxed_func

        log.warning("a %s graph does not compile and runs eagerly: %s", kind, error)
        metrics.record_fallback()
        return make_boxed_func(module.forward)


def _compile(module: GraphModule, kind: str) -> Callable[[list[Any]], Any]:
    plan = make_plan(module)
    record = metrics.GraphRecord(kind, plan.operators, executable=bool(plan.results))
    executable = None
    if plan.results:
        started = time.perf_counter()
        text = lower(plan.module)
        lowered = time.perf_counter()
        executable = Executable(text)
        record.lowering_seconds = lowered - started
        record.compile_seconds = time.perf_counter() - lowered
    metrics.record_graph(record)
    return _runner(plan, executable, record)


def _runner(
    plan: Plan, executable: Executable | None, record: metrics.GraphRecord
) -> Callable[[list[Any]], Any]:
    def run(arguments: list[Any]) -> list[Any]:
        started = time.perf_counter()
        values = list(arguments)
        arguments.clear()
        results: list[torch.Tensor] = []
        if executable is not None:
            inputs = [*(values[index] for index in plan.inputs), *plan.constants]
            computed = executable.run([memory.to_host(tensor) for tensor in inputs])
            results = [
                memory.to_device(tensor, spec) for tensor, spec in zip(computed, plan.results, strict=True)
            ]
        answer = [_answer(source, values, results) for source in plan.outputs]
        metrics.record_execution(record, time.perf_counter() - started)
        return answer

    # AOTAutograd hands a list over and frees what it can while the graph runs.
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


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
