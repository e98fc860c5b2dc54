"""Compile time of a tiny BERT, forward and backward: from nothing, and from the artefact cache.

Each measurement is a process of its own; the cache is a folder made for the occasion.

    python benchmarks/compile_cache.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time


def measure(model_name: str) -> dict[str, float]:
    """Seconds of a first training step, and how much of it the compiler took."""
    import torch

    import torchneuron_backend.compiler as compiler
    from torchneuron_backend.probe.models import build

    model, inputs = build(model_name)
    model.eval().to("neuron")
    inputs = {k: v.to("neuron") if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    compiled = torch.compile(model, backend="neuron", fullgraph=True)
    started = time.perf_counter()
    compiled(**inputs).loss.backward()
    first = time.perf_counter() - started
    metrics = compiler.get_dynamo_metrics()
    return {
        "first step": first,
        "lowering": metrics["lowering_seconds"],
        "compiling": metrics["compile_seconds"],
        "programs": metrics["partitions"],
        "cache hits": metrics["cache_hits"],
    }


def main() -> None:
    """Print one line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bert", help="a name of torchneuron_backend.probe.models")
    parser.add_argument("--repeat", type=int, default=2, help="processes that start from the cache")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.model)))
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHNEURON_CACHE_DIR": folder, "TORCHNEURON_CACHE": "1"}
        command = [sys.executable, __file__, "--measure", "--model", arguments.model]
        print(f"{'start':<10} {'first step s':>12} {'lowering s':>10} {'compiling s':>11} {'hits':>7}")
        for start in ["cold", *["cached"] * arguments.repeat]:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
            seen = json.loads(done.stdout.splitlines()[-1])
            hits = f"{seen['cache hits']}/{seen['programs']}"
            print(
                f"{start:<10} {seen['first step']:>12.2f} {seen['lowering']:>10.3f} "
                f"{seen['compiling']:>11.3f} {hits:>7}"
            )


if __name__ == "__main__":
    main()
