"""How long it takes to find the calls of a graph that do not lower: one by one, and in groups.

The graph is the forward pass of a small model in training, whose dropout draws random numbers. Both ways look
at the same calls, without a cache, one after the other.

    python benchmarks/refused_calls.py
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from torch.fx import GraphModule, Node


def capture(model_name: str) -> list[Node]:
    """The distinct calls of the forward graph of ``model_name`` in training."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    from torchneuron_backend.compiler import search
    from torchneuron_backend.compiler.graph import call_signature
    from torchneuron_backend.probe.models import build

    graphs: list[GraphModule] = []

    def keep(graph: GraphModule, _inputs: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    model, inputs = build(model_name)
    model.train().to("neuron")
    inputs = {k: v.to("neuron") if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    torch.compile(model, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep))(**inputs)
    return [nodes[0] for nodes in search.distinct(graphs[0], call_signature).values()]


def main() -> None:
    """Print seconds for either way, and what was found."""
    from torchneuron_backend.compiler import search

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bert", help="a name of torchneuron_backend.probe.models")
    parser.add_argument("--repeat", type=int, default=2)
    arguments = parser.parse_args()
    calls = capture(arguments.model)
    one_by_one = [[position] for position in range(len(calls))]
    for _ in range(arguments.repeat):
        seconds, found = [], []
        for groups in (one_by_one, None):
            started = time.perf_counter()
            found.append(search.refused(calls, groups))
            seconds.append(time.perf_counter() - started)
        assert set(found[0]) == set(found[1])
        print(
            f"{len(calls)} distinct calls, {len(found[0])} refused: one by one {seconds[0]:.2f} s, "
            f"in groups {seconds[1]:.2f} s, ratio {seconds[0] / seconds[1]:.1f}"
        )


if __name__ == "__main__":
    main()
