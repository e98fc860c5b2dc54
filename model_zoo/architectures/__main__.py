"""``python -m model_zoo.architectures list | try | cover FILE``."""

from __future__ import annotations

import argparse
import fnmatch
import importlib.metadata
import json
import os
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from model_zoo.architectures.covering import by_pair, covering_set

COVERING = Path(__file__).with_name("covering.toml")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, or 2 for a wrong command line."""
    options = _parser().parse_args(arguments)
    result: int = options.run(options)
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m model_zoo.architectures", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, run in (("list", _list), ("try", _try)):
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument("--types", default="*", help="glob over model types")
        command.add_argument("--classes", default="*", help="glob over class names")
        if name == "try":
            command.add_argument(
                "--sample", type=int, help="only so many pairs, drawn by a hash of their names"
            )
            command.add_argument("--jobs", type=int, default=1)
            command.add_argument("--seconds", type=float, default=40.0, help="limit of one pair")
            command.add_argument("--out", type=Path, default=Path("architectures.jsonl"))
    cover = commands.add_parser("cover")
    cover.set_defaults(run=_cover)
    cover.add_argument("file", type=Path)
    cover.add_argument("--to", type=Path, default=COVERING)
    return parser


def _chosen(options: argparse.Namespace) -> list[Any]:
    from model_zoo.architectures.pairs import all_pairs

    return [
        pair
        for pair in all_pairs()
        if fnmatch.fnmatchcase(pair.model_type, options.types)
        and fnmatch.fnmatchcase(pair.architecture, options.classes)
    ]


def _list(options: argparse.Namespace) -> int:
    for pair in _chosen(options):
        print(pair.model_type, pair.architecture, ",".join(pair.tasks))
    return 0


def _records(path: Path) -> list[dict[str, Any]]:
    """Records of a file; a last line that was cut off counts as not there."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _try(options: argparse.Namespace) -> int:
    """Run what the file does not have yet; each record is a line, written when it is known."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from model_zoo.architectures.server import preload, run_apart
    from model_zoo.architectures.trial import try_pair

    import torch  # isort: skip

    torch.set_num_threads(1)
    known = {record["pair"] for record in _records(options.out)}
    chosen = _chosen(options)
    if options.sample is not None:
        chosen = sorted(chosen, key=lambda pair: zlib.crc32(pair.key.encode()))[: options.sample]
    preload()
    todo = [pair for pair in chosen if pair.key not in known]
    with options.out.open("a") as file, ThreadPoolExecutor(options.jobs) as pool:
        if known and not options.out.read_text().endswith("\n"):
            file.write("\n")  # What a killed run left unfinished stays a line of its own.
        for record in pool.map(lambda pair: run_apart(pair, try_pair, seconds=options.seconds), todo):
            file.write(json.dumps(record) + "\n")
            file.flush()
    records = _records(options.out)
    done = [record for record in records if record["stage"] == "done"]
    print(f"{len(done)} of {len(records)} pairs ran forward and backward")
    for reason, count in Counter(r["reason"] for r in records if "reason" in r).most_common():
        print(f"{count:6} {reason}")
    return 0


def _cover(options: argparse.Namespace) -> int:
    seen = by_pair(_records(options.file))
    if not seen:
        print(f"{options.file} has no pair that ran forward and backward", file=sys.stderr)
        return 2
    chosen = covering_set(seen)
    operators = set().union(*map(set, seen.values()))
    version = importlib.metadata.version
    lines = [
        f"# Generated: python -m model_zoo.architectures cover {options.file.name}",
        f'transformers = "{version("transformers")}"',
        f'torch = "{version("torch")}"',
        f"pairs_seen = {len(seen)}",
        f"operators = {len(operators)}",
        "pairs = [",
        *(f'    "{name}",' for name in chosen),
        "]",
    ]
    options.to.write_text("\n".join(lines) + "\n")
    print(f"{len(chosen)} pairs reach all {len(operators)} operators of {len(seen)} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
