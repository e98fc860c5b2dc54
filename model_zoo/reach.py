"""How many operators a mirror's models reach: ``python -m model_zoo.reach DIR``.

Counts the overloads that one forward and backward of each model dispatches on the CPU, in float32
and eval mode. A device decomposes some operators otherwise, so the number compares sets of
models, not devices.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model_zoo.inputs import make_inputs
from model_zoo.load import load_model
from model_zoo.mirror import MirrorDirectory
from model_zoo.outputs import loss_of


class _Recorder(TorchDispatchMode):
    """Collects the names of the overloads that run under it, e.g. ``aten::add.Tensor``."""

    def __init__(self) -> None:
        super().__init__()
        self.overloads: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.overloads.add(str(func.name()))
        return func(*args, **(kwargs or {}))


def overloads_of(folder: Path | str, *, seed: int = 0) -> set[str]:
    """Overloads of one forward and backward of the model in a folder."""
    model = load_model(folder)
    inputs = make_inputs(model, seed=seed)
    with _Recorder() as recorder:
        loss_of(model(**inputs.kwargs)).backward()
    return recorder.overloads


def greedy_cover(reached: Mapping[str, set[str]]) -> list[tuple[str, int]]:
    """(model, overloads it adds), each time the one that adds most; ties by name."""
    left, seen, order = dict(reached), set[str](), []
    while left:
        best = min(left, key=lambda name: (-len(left[name] - seen), name))
        order.append((best, len(left[best] - seen)))
        seen |= left.pop(best)
    return order


def main(arguments: list[str] | None = None) -> int:
    """Print a line per model in greedy order and the total."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo.reach", description="Operators reached.")
    parser.add_argument("directory", type=Path, help="a mirror directory")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    repositories = {repository.id: repository for repository in MirrorDirectory(options.directory).all()}
    reached = {name: overloads_of(repository.folder) for name, repository in repositories.items()}
    for name, new in greedy_cover(reached):
        parameters = sum(repositories[name].parameters.values())
        task = repositories[name].metadata.pipeline_tag or "-"
        print(f"{name:42} {task:32} {parameters:>10,} {len(reached[name]):4} +{new}")
    print(f"{len(set().union(*reached.values()))} overloads over {len(reached)} models")
    return 0


if __name__ == "__main__":
    sys.exit(main())
