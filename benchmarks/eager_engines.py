"""The two engines of eager mode: what a first and a later call cost in each, and whether they agree.

    python benchmarks/eager_engines.py
    python benchmarks/eager_engines.py --agree [--suites opinfo,models]

The first prints, per operator, the first call with an empty cache on disk, the first call of a second
process, and a later call, for the compiled engine and beside it the host's; the cache is a folder made for
the occasion. The second runs a night in each engine on the same cases and compares the outcomes, case by case
and stage by stage; a stage of a night is the comparison with the CPU. It takes as long as two nights.
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
from pathlib import Path

from results.events import Ended, read_log
from results.plan import EVENTS_DIR

Outcomes = dict[tuple[str, str], str]


def calls() -> dict[str, Callable[[], object]]:
    """The measured calls, by label; their tensors are on the device."""
    import torch

    small, matrix = torch.ones(64, device="neuron"), torch.ones(64, 64, device="neuron")
    half = matrix.bfloat16()
    image, kernel = torch.ones(1, 3, 32, 32, device="neuron"), torch.ones(8, 3, 3, 3, device="neuron")
    return {
        "add, 64": lambda: small + small,
        "mul_ by a number, 64": lambda: small.mul_(1.0),
        "mm, 64x64": lambda: matrix @ matrix,
        "mm, 64x64 bfloat16": lambda: half @ half,
        "softmax, 64x64": lambda: matrix.softmax(-1),
        "gelu, 64x64": lambda: torch.nn.functional.gelu(matrix),
        "layer_norm, 64x64": lambda: torch.nn.functional.layer_norm(matrix, (64,)),
        "conv2d, 3x32x32": lambda: torch.nn.functional.conv2d(image, kernel),
        "sort, 64x64": lambda: matrix.sort(-1),
    }


def seconds(function: Callable[[], object]) -> float:
    """One call."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of the first call and of later ones, per call; the median, both engines in turn."""
    from torchneuron_backend import eager

    measured = {}
    for label, function in calls().items():
        with eager.engine("compiled"):
            first = seconds(function)
        later: dict[str, list[float]] = {"compiled": [], "host": []}
        for _ in range(rounds):
            for name, times in later.items():
                with eager.engine(name):  # type: ignore[arg-type]
                    times += [seconds(function) for _ in range(10)]
        measured[label] = {
            "first": first,
            **{name: statistics.median(times) for name, times in later.items()},
        }
    return measured


def start() -> float:
    """Seconds of the first program of a process, which loads the compiler and starts XLA."""
    import torch

    from torchneuron_backend import eager

    x = torch.ones(3, device="neuron")
    with eager.engine("compiled"):
        return seconds(lambda: x.neg())


def in_a_process(rounds: int, folder: str) -> dict[str, dict[str, float]]:
    """Measurements of a new process whose cache is ``folder``."""
    environment = {**os.environ, "TORCHNEURON_CACHE_DIR": folder, "TORCHNEURON_CACHE": "1"}
    command = [sys.executable, __file__, "--measure", "--rounds", str(rounds)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    measured: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return measured


def print_costs(rounds: int) -> None:
    """One line a call."""
    with tempfile.TemporaryDirectory() as folder:
        cold, cached = (in_a_process(rounds, folder) for _ in range(2))
    title = f"{'':24}{'first call, ms':>22}{'later call, us':>24}"
    print(f"{title}\n{'':24}{'cold':>11}{'from disk':>11}{'compiled':>12}{'host':>12}{'ratio':>8}")
    for label, figures in cold.items():
        if label == "start":
            print(
                f"{'first of a process':24}{figures['first'] * 1e3:11.0f}{cached[label]['first'] * 1e3:11.0f}"
            )
            continue
        ours, host = cached[label]["compiled"], cached[label]["host"]
        print(
            f"{label:24}{figures['first'] * 1e3:11.1f}{cached[label]['first'] * 1e3:11.1f}"
            f"{ours * 1e6:12.1f}{host * 1e6:12.1f}{ours / host:8.1f}"
        )


def night(engine: str, store: Path, options: list[str]) -> Outcomes:
    """The outcome of each case and stage of a night on ``engine``."""
    before = set(store.glob("runs/*"))
    code = "import sys; from harness.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "nightly", "--store", str(store), "--quiet", *options]
    subprocess.run(
        command, env={**os.environ, "TORCHNEURON_EAGER": engine}, stdout=subprocess.DEVNULL, check=False
    )
    (run,) = set(store.glob("runs/*")) - before
    return outcomes(run)


def outcomes(run: Path) -> Outcomes:
    """What the logs of a run say of each case and stage; of several attempts, the last."""
    found: Outcomes = {}
    for log in sorted((run / EVENTS_DIR).glob("*.jsonl")):
        for record in read_log(log):
            if isinstance(record.event, Ended):
                found[record.event.case, str(record.event.stage)] = str(record.event.outcome)
    return found


def print_agreement(host: Outcomes, compiled: Outcomes) -> None:
    """How many stages came to the same, by outcome, and each that did not."""
    same = Counter(outcome for key, outcome in host.items() if compiled.get(key) == outcome)
    differ = {key for key in host.keys() | compiled.keys() if host.get(key) != compiled.get(key)}
    counts = ", ".join(f"{count} {outcome}" for outcome, count in same.most_common())
    print(f"{sum(same.values())} of {len(host.keys() | compiled.keys())} the same: {counts}")
    for case, stage in sorted(differ):
        print(f"  {case} {stage}: {host.get((case, stage))} on host, {compiled.get((case, stage))} compiled")


def main() -> None:
    """Print costs, or how far the engines agree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, default=50, help="ten later calls in each engine, so many times"
    )
    parser.add_argument("--agree", action="store_true", help="run a night in each engine and compare")
    parser.add_argument("--suites", default="opinfo,models", help="of those nights")
    parser.add_argument("--store", type=Path, help="keep the nights here (default: nowhere)")
    parser.add_argument("--runs", type=Path, nargs=2, metavar="RUN", help="compare two runs that are there")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        import torch

        torch.set_num_threads(1)
        print(json.dumps({"start": {"first": start()}, **measure(options.rounds)}))
    elif options.runs:
        print_agreement(*map(outcomes, options.runs))
    elif options.agree:
        with tempfile.TemporaryDirectory() as folder:
            store = options.store or Path(folder)
            # A first forward compiles every operator of a model.
            slow = [
                f"--set=deadlines.{stage}=3600"
                for stage in ("forward", "backward", "compile", "test", "start")
            ]
            nights = [
                night(engine, store, ["--suites", options.suites, *slow]) for engine in ("host", "compiled")
            ]
        print_agreement(*nights)
    else:
        print_costs(options.rounds)


if __name__ == "__main__":
    main()
