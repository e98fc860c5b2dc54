"""The tree of PyTorch's test files that a store uses: where it is, which PyTorch it is of, and what is in it.

Nothing here imports torch: what is installed is read from its files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

RECORD = "source.json"
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_GIT_SECONDS = 60


class SourceError(RuntimeError):
    """Test files that cannot be used; one sentence that says what to do about it."""


class MismatchError(SourceError):
    """The test files are not those of the installed torch."""


@dataclasses.dataclass(frozen=True, slots=True)
class Installed:
    """The torch that is installed.

    Attributes:
        version: as in ``torch.__version__``, e.g. ``2.13.0+cpu``.
        commit: of pytorch/pytorch it was built from, ``""`` if unknown.
    """

    version: str
    commit: str

    @property
    def release(self) -> str:
        """``2.13.0`` of ``2.13.0+cpu``."""
        return self.version.partition("+")[0]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A tree of test files.

    Attributes:
        root: folder of the tests, absolute.
        origin: where it came from, in words.
        version: of PyTorch, ``""`` if the tree does not say.
        commit: of pytorch/pytorch, ``""`` if unknown.
        content: SHA-256 over names and contents of its Python files.
        torch: version of the installed torch when it was taken.
        mismatch: how it differs from that torch, ``""`` if it does not; accepted by whoever took it.
    """

    root: str
    origin: str
    version: str
    commit: str
    content: str
    torch: str
    mismatch: str = ""

    @property
    def facts(self) -> dict[str, str]:
        """What a run keeps of it."""
        return {
            f"upstream.{name}": text for name, text in dataclasses.asdict(self).items() if name != "torch"
        }


def installed_torch() -> Installed:
    """Read which torch is installed, without importing it.

    Raises:
        SourceError: none is.
    """
    spec = importlib.util.find_spec("torch")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise SourceError("torch is not installed, so there is no version whose tests could be fetched")
    said = runpy.run_path(str(Path(places[0]) / "version.py"))
    return Installed(str(said["__version__"]), str(said.get("git_version") or ""))


def examine(folder: Path, origin: str, torch: Installed, *, allow_mismatch: bool) -> Source:
    """Look at a checkout of PyTorch, or at a folder of tests, and check that it fits the installed torch.

    Raises:
        SourceError: the folder holds no test files.
        MismatchError: they are of another PyTorch, or do not say of which, and that is not allowed.
    """
    root = (folder / "test" if (folder / "test").is_dir() else folder).resolve()
    if not root.is_dir():
        raise SourceError(f"{folder} is not a folder")
    if next(root.rglob("test_*.py"), None) is None:
        raise SourceError(f"{root} holds no test_*.py: give a checkout of PyTorch, or its folder test")
    version, commit = _identity(root)
    mismatch = _mismatch(version, commit, torch)
    if mismatch and not allow_mismatch:
        raise MismatchError(f"{root}: {mismatch}; --allow-mismatch takes them all the same")
    return Source(
        root=str(root),
        origin=origin,
        version=version,
        commit=commit,
        content=content_hash(root),
        torch=torch.version,
        mismatch=mismatch,
    )


def _mismatch(version: str, commit: str, torch: Installed) -> str:
    """How files differ from the installed torch; a commit says more than a version."""
    said = f"the test files are of PyTorch {version}"
    if commit and torch.commit:
        if commit == torch.commit:
            return ""
        return f"{said}, commit {commit[:12]}, but torch {torch.version} was built from {torch.commit[:12]}"
    if not version:
        return "neither a version.txt nor git says which PyTorch the test files are of"
    return (
        ""
        if _release(version) == _release(torch.version)
        else f"{said}, but torch {torch.version} is installed"
    )


def _release(version: str) -> str:
    found = _RELEASE.match(version)
    return found[0] if found else version


def _identity(root: Path) -> tuple[str, str]:
    """Version and commit of the checkout that a folder of tests is in; ``""`` for what cannot be known."""
    for folder in (root, root.parent):
        place = folder / "version.txt"
        if place.is_file():
            return place.read_text().strip(), _head(folder)
    return "", ""


def _head(checkout: Path) -> str:
    """The commit of a checkout; ``""`` if the folder is not the top of one."""
    command = ["git", "-C", str(checkout), "rev-parse", "--show-toplevel", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    top, _, commit = done.stdout.strip().partition("\n")
    return commit if done.returncode == 0 and Path(top).resolve() == checkout.resolve() else ""


def content_hash(root: Path) -> str:
    """SHA-256 over names and contents of the Python files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


def save(source: Source, folder: Path) -> None:
    """Make a tree the one that a store uses; ``folder`` is the suite's in the store's cache."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{RECORD}.tmp"
    temporary.write_text(json.dumps(dataclasses.asdict(source), indent=1) + "\n")
    temporary.replace(folder / RECORD)


def load(folder: Path) -> Source:
    """The tree that a store uses.

    Raises:
        SourceError: there is none yet, or its record cannot be read.
    """
    try:
        body: dict[str, Any] = json.loads((folder / RECORD).read_text())
        return Source(**body)
    except FileNotFoundError:
        raise SourceError(
            "this store has no PyTorch test files yet; `harness suites fetch` brings them, "
            "`harness suites fetch --from DIR` takes a folder"
        ) from None
    except (ValueError, TypeError) as error:
        raise SourceError(
            f"{folder / RECORD} cannot be read ({error}); `harness suites fetch` makes it anew"
        ) from error


def usable(source: Source, torch: Installed) -> Source:
    """Check that a tree is still what it was when it was taken, and torch, too.

    Raises:
        SourceError: either has changed.
    """
    if not Path(source.root).is_dir():
        raise SourceError(f"the test files at {source.root} are gone; `harness suites fetch` brings others")
    if source.torch != torch.version:
        raise SourceError(
            f"the test files were taken for torch {source.torch}, and torch {torch.version} is installed; "
            "`harness suites fetch` brings those of this one"
        )
    if content_hash(Path(source.root)) != source.content:
        raise SourceError(
            f"the test files at {source.root} are not what they were when they were taken; "
            "`harness suites fetch` takes them as they are"
        )
    return source
