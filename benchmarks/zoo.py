"""A generated Hub behind the mirror, walked, classified, planned, run and run again: time and memory of each.

    python benchmarks/zoo.py --models 2000      # a quick look
    python benchmarks/zoo.py --models 100000

Models are copies of the embedded mirror's, real architectures with tiny seeded weights, which share their
weight files by hard links. Architectures and downloads fall off as a power of the rank; each architecture
comes in ``--variants`` configurations, told apart by a key of their own; ``--unlike`` of the models have GGUF
weights only.

The mirror runs in a process of its own, which is not measured; its first listing, which hashes every file, is
made before. Each step is the command that it names, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from model_zoo.mirror import METADATA_FILE

SLOPE = 1.28
"""Of downloads over ranks, as fitted to a list of the Hub's 1,000 most downloaded models."""


def generate(root: Path, models: int, variants: int, unlike: float, seed: int) -> None:
    """Write the Hub; in a child, since a process inherits the memory peak of the one it is forked from."""
    from model_zoo.builder import build_mirror

    source = root.with_name("source")
    build_mirror(source, pretrained=False)
    kinds = sorted(path.parent for path in source.glob("*/*/config.json") if _weights(path.parent))
    weights = [1 / (rank + 1) for rank in range(len(kinds))]
    draw = random.Random(seed)
    for rank in range(models):
        kind = draw.choices(kinds, weights)[0]
        folder = root / f"org{rank % 997}" / f"{kind.name}-{rank}"
        folder.mkdir(parents=True)
        only_gguf = draw.random() < unlike
        for path in kind.iterdir():
            if path.suffix == ".safetensors" and only_gguf:
                (folder / "model.gguf").write_bytes(b"GGUF")
            elif path.name not in ("config.json", METADATA_FILE) and path.is_file():
                os.link(path, folder / path.name)
        config = json.loads((kind / "config.json").read_text())
        config |= {"_name_or_path": folder.name, "zoo_variant": draw.randrange(variants)}
        (folder / "config.json").write_text(json.dumps(config))
        metadata = json.loads((kind / METADATA_FILE).read_text())
        metadata["downloads"] = int(1e8 / (rank + 1) ** SLOPE)
        (folder / METADATA_FILE).write_text(json.dumps(metadata))


def _weights(folder: Path) -> bool:
    return (folder / "model.safetensors").is_file()


def measured(name: str, command: Sequence[str], codes: tuple[int, ...] = (0,)) -> str:
    """Run a harness command, print its time and the memory of its largest process; what it said."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.cli", *command], stdout=said, stderr=subprocess.STDOUT, text=True
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - started
        said.seek(0)
        output = said.read()
    print(f"{name:44} {seconds:9.1f} s {usage.ru_maxrss / 1024:8.0f} MiB", flush=True)
    if process.returncode not in codes:
        raise SystemExit(f"{' '.join(command)} exited {process.returncode}:\n{output}")
    return output


def serve(root: Path) -> tuple[subprocess.Popen[str], str]:
    """The mirror in a process of its own, after its first listing."""
    command = [sys.executable, "-m", "harness.cli", "zoo", "serve", str(root), "--port", "0", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = re.search(r"http://\S+", server.stdout.readline())
    assert found is not None
    with urllib.request.urlopen(f"{found[0]}/api/models?limit=1&sort=downloads", timeout=3600) as answer:
        answer.read()
    return server, found[0]


def measure(folder: Path, endpoint: str, always_run: int, run: bool) -> None:
    """Every step."""
    catalog, store = folder / "hub.parquet", folder / "store"
    quiet, kept = ["--quiet"], ["--store", str(store)]
    one = ["--hub", endpoint, "--out", str(catalog), *quiet]
    measured("snapshot, listing only", ["zoo", "snapshot", "--listing-only", *one])
    measured("snapshot with configurations and sizes", ["zoo", "snapshot", *one])
    measured("snapshot again, nothing changed", ["zoo", "snapshot", *one])
    classes = ["zoo", "classes", str(catalog), "--hub", endpoint, *kept, "--always-run", str(always_run)]
    measured("classes, with the header checks", [*classes, *quiet])
    print(measured("classes, headers known", [*classes, *quiet, "--limit", "5"]))
    night = ["--suites", "models", "--catalog", str(catalog), "--hub", endpoint, *kept]
    night += ["--set", f"always_run={always_run}"]
    measured("plan", ["plan", *night, "--format", "csv"])
    if run:
        measured("night", ["nightly", *night, *quiet], codes=(0, 1))
        measured("ingest of that night, from its logs", ["ingest", "--rebuild", *kept])
        print(measured("night, nothing changed", ["nightly", *night, *quiet], codes=(0, 1)))


def main() -> None:
    """Parse the arguments, generate, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=int, default=100_000)
    parser.add_argument("--variants", type=int, default=3, help="configurations of each architecture")
    parser.add_argument("--unlike", type=float, default=0.02, help="share with GGUF weights only")
    parser.add_argument("--always-run", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-run", action="store_true", help="stop after the plan")
    parser.add_argument("--folder", type=Path, help="where the Hub is generated (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        started = time.monotonic()
        wanted = (folder / "hub", options.models, options.variants, options.unlike, options.seed)
        child = multiprocessing.get_context("spawn").Process(target=generate, args=wanted)
        child.start()
        child.join()
        if child.exitcode:
            raise SystemExit("the Hub could not be generated")
        print(f"{options.models:,} models generated in {time.monotonic() - started:.0f} s")
        server, endpoint = serve(folder / "hub")
        try:
            measure(folder, endpoint, options.always_run, not options.no_run)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
