"""What the simulated device costs, as ratios measured in one run.

    python benchmarks/device.py [eager] [counting] [compiled] [start] [dispatch] [--seconds 10]

eager     a training step (forward, backward, AdamW with foreach) of a tiny and of a BERT-base-sized model,
          `neuron` / `cpu`.
counting  the same step on `neuron`, with operator calls counted / not counted.
compiled  forward and backward of the tiny model, compiled for `neuron` and by inductor for the CPU,
          / eager CPU.
start     time to the first compiled step of the tiny model, from nothing and from the artefact cache, in
          processes of their own.
dispatch  microseconds of one small addition: CPU, `neuron`, `neuron` under a counting `TorchDispatchMode`.

What is compared alternates step by step, so noise of the machine falls on both sides; printed are the medians
and the median of the ratios of neighbours, with its quartiles.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from compile_cache import measure
from torch.utils._python_dispatch import TorchDispatchMode

from torchneuron_backend import _C

Step = Callable[[], object]
SIZES = {
    "tiny": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37},
    "BERT-base": {},  # transformers' own defaults are BERT-base's
}


def bert(size: str, device: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """A seeded BERT classifier of ``size`` on ``device``, without dropout, and a batch of 2 × 64 tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(**SIZES[size], hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertForSequenceClassification(config).train().to(device)
    ids = torch.randint(3, config.vocab_size, (2, 64), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor([0, 1])}
    return model, {name: value.to(device) for name, value in batch.items()}


def training_step(size: str, device: str) -> Step:
    """One step of training, with the loss read back at its end."""
    model, batch = bert(size, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def gradient_step(device: str, backend: str | None = None) -> Step:
    """Forward and backward of the tiny model, compiled by ``backend`` unless it is None."""
    model, batch = bert("tiny", device)
    called = torch.compile(model, backend=backend, fullgraph=True) if backend else model

    def step() -> float:
        model.zero_grad()
        loss = called(**batch).loss
        loss.backward()
        return loss.item()

    return step


def alternate(sides: dict[str, Step], seconds: float) -> dict[str, list[float]]:
    """Seconds of each step of each side, run in turn for ``seconds`` and at least seven rounds."""
    for step in sides.values():
        step(), step()
    times: dict[str, list[float]] = {name: [] for name in sides}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 7:
        for name, step in sides.items():
            started = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - started)
    return times


def show(title: str, times: dict[str, list[float]], against: str) -> None:
    """A line for each side: its median, and its ratio to the side named ``against``."""
    print(f"{title} ({len(times[against])} rounds)")
    for name, found in times.items():
        ratios = [a / b for a, b in zip(found, times[against], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        line = f"  {name:34} {statistics.median(found) * 1e3:10.3f} ms"
        print(line if name == against else f"{line}   x {middle:.3f}   ({low:.3f} to {high:.3f})", flush=True)


def eager(seconds: float) -> None:
    for size in SIZES:
        sides = {"cpu": training_step(size, "cpu"), "neuron": training_step(size, "neuron")}
        show(f"eager training step, {size}", alternate(sides, seconds), "cpu")


def counting(seconds: float) -> None:
    for size in SIZES:
        step = training_step(size, "neuron")

        def uncounted(step: Step = step) -> None:
            _C.count_ops(False)
            try:
                step()
            finally:
                _C.count_ops(True)

        show(
            f"counting, {size}",
            alternate({"not counted": uncounted, "counted": step}, seconds),
            "not counted",
        )


def compiled(seconds: float) -> None:
    sides = {
        "eager, cpu": gradient_step("cpu"),
        "compiled by neuron, neuron": gradient_step("neuron", "neuron"),
        "compiled by inductor, cpu": gradient_step("cpu", "inductor"),
    }
    show("forward and backward, tiny", alternate(sides, seconds), "eager, cpu")


def start(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHNEURON_CACHE_DIR": folder, "TORCHNEURON_CACHE": "1"}
        print("first compiled step, tiny, forward and backward")
        for name in ("from nothing", "from the cache", "from the cache"):
            command = [sys.executable, __file__, "--first-step"]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
            seen = json.loads(done.stdout.splitlines()[-1])
            parts = f"lowering {seen['lowering']:.2f} s, compiling {seen['compiling']:.2f} s"
            hits = f"{seen['cache hits']:.0f} of {seen['programs']:.0f} programs cached"
            print(f"  {name:34} {seen['first step']:10.2f} s    {parts}, {hits}", flush=True)


class CountingMode(TorchDispatchMode):
    """The usual way of recording operators from Python."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[Any] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[func] += 1
        return func(*args, **(kwargs or {}))


def dispatch(seconds: float) -> None:
    calls = 2000

    def adding(device: str, mode: bool = False) -> Step:
        tensor = torch.ones(4, device=device)

        def step() -> None:
            for _ in range(calls):
                torch.add(tensor, tensor)

        def under_mode() -> None:
            with CountingMode():
                step()

        return under_mode if mode else step

    sides = {
        "cpu": adding("cpu"),
        "neuron": adding("neuron"),
        "neuron, dispatch mode": adding("neuron", mode=True),
    }
    times = alternate(sides, seconds)
    print(f"one addition of 4 numbers ({len(times['cpu'])} rounds of {calls})")
    for name, found in times.items():
        print(f"  {name:34} {statistics.median(found) / calls * 1e6:10.3f} µs")


PARTS = {"eager": eager, "counting": counting, "compiled": compiled, "start": start, "dispatch": dispatch}


def main() -> None:
    """Run the parts that were asked for; all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=PARTS, help="default: all")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each comparison runs")
    parser.add_argument("--first-step", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first_step:
        print(json.dumps(measure("bert")))
        return
    for part in arguments.parts or PARTS:
        PARTS[part](arguments.seconds)


if __name__ == "__main__":
    main()
