"""Split an ATen graph into pieces that compile and pieces that run eagerly on the device between them.

Every call gets a stage: compiled stages have even numbers, eager ones odd numbers, and no call reads from a
later stage. A call is put as early as its inputs allow, which gives the fewest stages on every path.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.split_module import split_module

from .bisection import Span
from .graph import attribute, operator_name

_HIGHER_ORDER = "a higher-order operator, which holds graphs of its own"


@dataclass
class Split:
    """``module`` calls its submodules ``compiled`` and ``eager`` in turn.

    ``calls_eager`` counts the calls per overload that were left to eager stages.
    """

    module: GraphModule
    compiled: list[str]
    eager: list[str]
    calls_eager: Counter[str]


def calls(module: GraphModule) -> list[Node]:
    """The calls of ``module`` in its order, without the taking of one result out of several."""
    return [node for node in _all_calls(module) if not _is_getitem(node)]


def higher_order_calls(module: GraphModule) -> dict[Node, str]:
    """The calls of ``module`` that are no ATen overload and so have no lowering, each with the reason."""
    return {node: _HIGHER_ORDER for node in calls(module) if not _is_aten(node)}


def call_name(node: Node) -> str:
    """The overload that ``node`` calls, ``aten::add.Tensor``; of anything else its own name."""
    if isinstance(node.target, torch._ops.OpOverload):
        return operator_name(node.target)
    return str(getattr(node.target, "__name__", node.target))


def split(module: GraphModule, eager: Mapping[Node, str]) -> Split:
    """Split ``module`` so that the calls ``eager`` run eagerly. Its nodes are put into another valid order.

    A compiled stage that would only make views is left to the eager ones.
    """
    return _split(module, _useful_stages(_all_calls(module), set(eager)))


def split_at(module: GraphModule, spans: Sequence[Span]) -> Split:
    """Split ``module`` into ``spans`` of its calls, as `calls` has them."""
    order = calls(module)
    stage_of = {
        node: 2 * number + span.eager
        for number, span in enumerate(spans)
        for node in order[span.start : span.end]
    }
    # In the graph's order, which is that within a stage.
    stages: dict[Node, int] = {}
    for node in _all_calls(module):
        stages[node] = stages[node.all_input_nodes[0]] if _is_getitem(node) else stage_of[node]
    return _split(module, stages)


def _split(module: GraphModule, stages: dict[Node, int]) -> Split:
    for node in module.graph.nodes:
        if node.op == "get_attr":
            node.meta.setdefault("val", attribute(module, node))
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    for node in sorted(stages, key=stages.__getitem__):
        output.prepend(node)
    pieces = split_module(module, module, stages.__getitem__, keep_original_order=True)
    numbers = sorted(set(stages.values()))
    return Split(
        module=pieces,
        compiled=[f"submod_{number}" for number in numbers if number % 2 == 0],
        eager=[f"submod_{number}" for number in numbers if number % 2],
        calls_eager=Counter(
            call_name(node) for node, stage in stages.items() if stage % 2 and not _is_getitem(node)
        ),
    )


def _useful_stages(calls: list[Node], eager: set[Node]) -> dict[Node, int]:
    while True:
        stages = _stages(calls, eager)
        working = {stage for node, stage in stages.items() if not _only_looks(node)}
        idle = {node for node, stage in stages.items() if stage % 2 == 0 and stage not in working}
        if not idle:
            return stages
        eager = eager | idle


def _stages(calls: list[Node], eager: set[Node]) -> dict[Node, int]:
    stages: dict[Node, int] = {}
    last_effect = 0
    for node in calls:
        if _is_getitem(node):
            stages[node] = stages[node.all_input_nodes[0]]
            continue
        parity = int(node in eager)
        earliest = max([stages.get(source, parity) for source in node.all_input_nodes], default=parity)
        if _has_effect(node):
            earliest = max(earliest, last_effect)
        stages[node] = earliest + (earliest % 2 != parity)
        if _has_effect(node):
            last_effect = stages[node]
    return stages


def _all_calls(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "call_function"]


def _is_aten(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload)


def _is_getitem(node: Node) -> bool:
    return node.target is operator.getitem


def _has_effect(node: Node) -> bool:
    """Calls that draw random numbers or write to an argument must keep their order."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return not _is_getitem(node)
    return torch.Tag.nondeterministic_seeded in node.target.tags or node.target._schema.is_mutable


def _only_looks(node: Node) -> bool:
    return _is_getitem(node) or (isinstance(node.target, torch._ops.OpOverload) and node.target.is_view)
