"""The compile route of the neuron device: ``torch.compile(backend="neuron")``."""

from .backend import compile_graph, neuron
from .errors import (
    CompilerError,
    DynamicShapeError,
    ExecutableError,
    InternalCompilerError,
    LoweringError,
    OptionError,
    UnsupportedOperatorError,
    find_compiler_error,
)
from .metrics import CompiledOp, compiled_ops, get_dynamo_metrics, reset_dynamo_metrics

__all__ = [
    "CompiledOp",
    "CompilerError",
    "DynamicShapeError",
    "ExecutableError",
    "InternalCompilerError",
    "LoweringError",
    "OptionError",
    "UnsupportedOperatorError",
    "compile_graph",
    "compiled_ops",
    "find_compiler_error",
    "get_dynamo_metrics",
    "neuron",
    "reset_dynamo_metrics",
]
