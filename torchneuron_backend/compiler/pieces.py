"""Run a graph that was split: compiled pieces, and single calls on the device between them.

A value is let go before the call that reads it last has returned: what a long graph needs at its peak is then
what it needs at one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from .graph import attribute

Run = Callable[[list[Any]], Any]


@dataclass
class _Step:
    """Put the result of ``run`` on ``reads`` where ``node`` is read; ``dies`` are not read any later."""

    node: Node
    run: Run
    reads: list[Node]
    dies: set[Node]


class Pieces:
    """Calls ``module`` with a list of arguments, which it empties, and returns a list.

    ``compiled`` has what to run for a submodule of that name; its other submodules run call by call.
    """

    def __init__(self, module: GraphModule, compiled: Mapping[str, Run]) -> None:
        nodes = list(module.graph.nodes)
        self._inputs = [node for node in nodes if node.op == "placeholder"]
        self._constants = {node: attribute(module, node) for node in nodes if node.op == "get_attr"}
        (self._output,) = (node.args[0] for node in nodes if node.op == "output")
        self._steps = [
            _Step(node, _runner(module, node, compiled), list(dict.fromkeys(node.all_input_nodes)), set())
            for node in nodes
            if node.op not in ("placeholder", "get_attr", "output")
        ]
        self._find_last_readers()

    def _find_last_readers(self) -> None:
        returned: list[Node] = []
        map_arg(self._output, returned.append)
        alive = set(returned)
        for step in reversed(self._steps):
            step.dies = set(step.reads) - alive
            alive |= set(step.reads)

    def __call__(self, arguments: list[Any]) -> list[Any]:
        values: dict[Node, Any] = dict(self._constants)
        values.update(zip(self._inputs, arguments, strict=True))
        arguments.clear()
        for node in [node for node in self._inputs if not node.users]:
            del values[node]
        for step in self._steps:
            read = [values.pop(node) if node in step.dies else values[node] for node in step.reads]
            result = step.run(read)
            if step.node.users:
                values[step.node] = result
            del read, result
        answer = map_arg(self._output, values.__getitem__)
        return list(answer) if isinstance(answer, (list, tuple)) else [answer]


def _runner(module: GraphModule, node: Node, compiled: Mapping[str, Run]) -> Run:
    """What runs ``node`` on the values of its distinct input nodes: a list, which it empties."""
    if node.op != "call_module":
        return _call(node)
    name = str(node.target)
    run = compiled.get(name) or Pieces(getattr(module, name), {})
    sources = list(dict.fromkeys(node.all_input_nodes))
    positions = [sources.index(argument) for argument in node.args]  # type: ignore[arg-type]

    def piece(values: list[Any]) -> Any:
        arguments = [values[position] for position in positions]
        values.clear()
        results = run(arguments)
        return results[0] if len(results) == 1 else results

    return piece


def _call(node: Node) -> Run:
    sources = list(dict.fromkeys(node.all_input_nodes))

    def call(values: list[Any]) -> Any:
        known = dict(zip(sources, values, strict=True))
        values.clear()
        args, kwargs = map_arg((node.args, dict(node.kwargs)), known.__getitem__)
        return _as_traced(node, node.target(*args, **kwargs))  # type: ignore[operator]

    return call


def _as_traced(node: Node, result: Any) -> Any:
    """With the precision that the graph was traced with, which later pieces are compiled for.

    PyTorch's meta functions keep the statistics of a normalisation in float32 on every device but the CPU,
    and the device's kernels keep what the CPU's do.
    """
    traced = node.meta.get("val")
    if not isinstance(result, torch.Tensor) or not isinstance(traced, torch.Tensor):
        return result
    both_float = result.is_floating_point() and traced.is_floating_point()
    return result.to(traced.dtype) if both_float else result
