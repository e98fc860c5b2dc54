"""Counts of what the compile route did, per process: the proof that a graph was captured and that it ran."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class CompiledOp(NamedTuple):
    """An overload that ran inside compiled graphs: ``aten::mm``, ``float32``, number of calls."""

    operator: str
    dtype: str
    calls: int


@dataclass
class GraphRecord:
    """One compiled graph. ``kind`` is forward, backward or inference; times are seconds.

    ``operators`` are the calls in its compiled pieces, ``partitions`` of them; ``operators_eager`` are those
    that run eagerly between them.
    """

    kind: str
    operators: Counter[tuple[str, str]] = field(default_factory=Counter)
    lowering_seconds: float = 0.0
    compile_seconds: float = 0.0
    executions: int = 0
    execution_seconds: float = 0.0
    partitions: int = 0
    operators_eager: Counter[str] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        return sum(self.operators.values())


@dataclass
class _State:
    graphs: list[GraphRecord] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    operators: Counter[tuple[str, str]] = field(default_factory=Counter)
    executions: int = 0
    execution_seconds: float = 0.0
    fallbacks: int = 0
    cache_hits: int = 0
    lowering_hits: int = 0


_state = _State()
# Backward graphs run on autograd's own threads.
_lock = threading.Lock()


def record_graph(record: GraphRecord) -> None:
    """Count ``record`` as one compiled graph."""
    with _lock:
        _state.graphs.append(record)


def record_execution(record: GraphRecord, seconds: float) -> None:
    """Count one run of ``record`` that took ``seconds``, also where it was compiled before the last reset."""
    with _lock:
        record.executions += 1
        record.execution_seconds += seconds
        _state.executions += 1
        _state.execution_seconds += seconds
        _state.operators.update(record.operators)


def record_failure(kind: str, error: Exception) -> None:
    """Count a graph that did not compile, with the operators at fault where they are known."""
    with _lock:
        _state.failures.append(
            {
                "kind": kind,
                "error": type(error).__name__,
                "message": str(error),
                "operators": list(getattr(error, "operators", [])),
            }
        )


def record_fallback() -> None:
    """Count a graph that did not compile and runs eagerly because the caller asked for that."""
    with _lock:
        _state.fallbacks += 1


def record_cache_hit() -> None:
    """Count an executable that was taken from the cache instead of being compiled."""
    with _lock:
        _state.cache_hits += 1


def record_lowering_hit() -> None:
    """Count a lowering whose outcome was taken from the cache."""
    with _lock:
        _state.lowering_hits += 1


def get_dynamo_metrics() -> dict[str, Any]:
    """What was compiled and run in this process since the last reset.

    ``graphs_compiled``, ``executables`` (graphs with something to compute), ``partitions`` (compiled pieces:
    one of a graph that lowers as a whole), ``ops_eager`` (list of overload, calls in those graphs that are
    left to run eagerly between the pieces), ``lowering_seconds``, ``compile_seconds``, ``executions``,
    ``execution_seconds``, ``cache_hits`` (executables that were not compiled but loaded), ``lowering_hits``
    (the same for lowerings), ``fallbacks``, ``failures`` (list of kind, error, message, operators) and
    ``graphs`` (list of kind, operators, partitions, ops_eager, seconds and executions, in order).
    """
    with _lock:
        graphs = list(_state.graphs)
        return {
            "graphs_compiled": len(graphs),
            "executables": sum(graph.partitions > 0 for graph in graphs),
            "partitions": sum(graph.partitions for graph in graphs),
            "ops_eager": sorted(sum((graph.operators_eager for graph in graphs), Counter()).items()),
            "lowering_seconds": sum(graph.lowering_seconds for graph in graphs),
            "compile_seconds": sum(graph.compile_seconds for graph in graphs),
            "executions": _state.executions,
            "execution_seconds": _state.execution_seconds,
            "cache_hits": _state.cache_hits,
            "lowering_hits": _state.lowering_hits,
            "fallbacks": _state.fallbacks,
            "failures": [dict(failure) for failure in _state.failures],
            "graphs": [_describe(graph) for graph in graphs],
        }


def _describe(graph: GraphRecord) -> dict[str, Any]:
    return {
        "kind": graph.kind,
        "operators": graph.size,
        "distinct_operators": len({name for name, _ in graph.operators}),
        "partitions": graph.partitions,
        "ops_eager": sorted(graph.operators_eager.items()),
        "lowering_seconds": graph.lowering_seconds,
        "compile_seconds": graph.compile_seconds,
        "executions": graph.executions,
        "execution_seconds": graph.execution_seconds,
    }


def compiled_ops() -> list[CompiledOp]:
    """Overloads that ran inside compiled graphs since the last reset, sorted: operator, dtype, calls."""
    with _lock:
        return [CompiledOp(name, dtype, calls) for (name, dtype), calls in sorted(_state.operators.items())]


def reset_dynamo_metrics() -> None:
    """Forget everything counted so far; what runs afterwards counts anew."""
    global _state
    with _lock:
        _state = _State()
