"""What the mirror and fetching cost: a listing, a file, and a model from cold to warm.

    python -m benchmarks.mirror --models 5000 --megabytes 200

Prints one line a figure. Repositories are generated: a small configuration and one vector each.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

from model_zoo.catalog import snapshot
from model_zoo.digests import digest
from model_zoo.download import download
from model_zoo.fetch import fetch
from model_zoo.mirror import MirrorServer


def generate(root: Path, models: int, megabytes: int) -> None:
    """Write a mirror directory of small repositories, and one with a large file."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    weights = len(header).to_bytes(8, "little") + header + bytes(16)
    config = json.dumps({"model_type": "bert", "architectures": ["BertModel"]})
    for number in range(models):
        folder = root / f"org{number % 97}/model-{number}"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(config)
        (folder / "model.safetensors").write_bytes(weights)
        (folder / ".mirror.json").write_text(json.dumps({"downloads": 10**6 // (number + 1)}))
    large = root / "large/file"
    large.mkdir(parents=True)
    (large / "config.json").write_text(config)
    with (large / "weights.bin").open("wb") as file:
        for _ in range(megabytes):
            file.write(bytes(2**20))


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", type=int, default=5000)
    parser.add_argument("--megabytes", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "hub")
        generate(root, options.models, options.megabytes)
        with MirrorServer(root) as server:
            for name in ("first", "second"):
                begun = time.perf_counter()
                listed = snapshot(server.endpoint, token=False)
                took = time.perf_counter() - begun
                print(
                    f"{name} listing: {len(listed)} models in {took:.2f} s, {len(listed) / took:.0f} a second"
                )
            file = root / "large/file/weights.bin"
            begun = time.perf_counter()
            url = f"{server.endpoint}/large/file/resolve/main/weights.bin"
            download(url, Path(scratch, "copy"), digest(file))
            took = time.perf_counter() - begun
            print(f"download, hashed twice: {options.megabytes} MiB in {took:.2f} s")
            commit = listed[0].revision
            for name in ("cold", "warm"):
                server.requests.clear()
                begun = time.perf_counter()
                fetch(listed[0].id, commit, Path(scratch, "cache"), server.endpoint, token=False)
                took = (time.perf_counter() - begun) * 1000
                print(f"{name} fetch of a pinned commit: {len(server.requests)} requests, {took:.1f} ms")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of server and client together: {peak:.0f} MiB")


if __name__ == "__main__":
    main()
