"""Brings PyTorch's test files by git: the folders of tests alone, at one commit, without history."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from suites.upstream.source import Installed, Source, SourceError, examine

REPOSITORY = "https://github.com/pytorch/pytorch.git"
FOLDERS = ("test", "tools")
"""What is checked out, beside the files in the repository's root; some tests import from ``tools``."""

_PLAIN = re.compile(r"\d+\.\d+\.\d+")
_SECONDS = 3600


class UnreachableError(RuntimeError):
    """The repository cannot be reached; one sentence."""


def wanted_ref(torch: Installed, version: str = "") -> str:
    """What to fetch: the tag of a release, or the commit that a development build of torch names.

    Raises:
        SourceError: torch is a development build that names no commit.
    """
    if version or _PLAIN.fullmatch(torch.release):
        return f"refs/tags/v{(version or torch.release).removeprefix('v')}"
    if not torch.commit:
        raise SourceError(f"torch {torch.version} is no release and names no commit; give --torch-version")
    return torch.commit


def fetch(
    folder: Path, ref: str, torch: Installed, *, url: str = REPOSITORY, allow_mismatch: bool = False
) -> Source:
    """Check out test files below a folder, whole or not at all; a checkout that is there is made anew.

    Args:
        folder: the suite's in a store's cache.
        ref: a full name of a tag (``refs/tags/v2.13.0``), or a commit.

    Raises:
        UnreachableError: the repository cannot be reached.
        SourceError: it has no such ref, or git fails; as a ``MismatchError``, the files do not fit the
            installed torch.
    """
    if shutil.which("git") is None:
        raise SourceError("git is not installed; fetch the files elsewhere and give them with --from DIR")
    name = ref.rpartition("/")[2]
    place = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as temporary:
        checkout = Path(temporary) / "checkout"
        _check_out(checkout, url, ref)
        examine(checkout, url, torch, allow_mismatch=allow_mismatch)
        if place.exists():
            place.replace(Path(temporary) / "old")
        checkout.replace(place)
    return examine(place, f"{url} at {name}", torch, allow_mismatch=allow_mismatch)


def _check_out(checkout: Path, url: str, ref: str) -> None:
    checkout.mkdir()
    _git(checkout, "init", "--quiet")
    _git(checkout, "remote", "add", "origin", url)
    _git(checkout, "sparse-checkout", "set", "--cone", *FOLDERS)
    # Without a filter the one commit alone is gigabytes; a server that knows none ignores it.
    _fetch(checkout, url, ref)
    _git(checkout, "checkout", "--quiet", "FETCH_HEAD")


def _fetch(checkout: Path, url: str, ref: str) -> None:
    name = ref.rpartition("/")[2]
    try:
        _git(checkout, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "--no-tags", "origin", ref)
    except SourceError as error:
        said = str(error)
        if "couldn't find remote ref" in said or "not our ref" in said:
            raise SourceError(f"{url} has no {name}; --torch-version names a release") from error
        raise UnreachableError(
            f"{url} could not be reached ({said}); fetch the files where there is a network "
            "and give them with --from DIR"
        ) from error


def _git(checkout: Path, *arguments: str) -> None:
    """Run git; its last word is the error's.

    Raises:
        SourceError: it failed.
    """
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", str(checkout), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"git {arguments[0]} took longer than {_SECONDS} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("fatal:", "error:"))]
        raise SourceError((lines or done.stderr.splitlines() or [f"git {arguments[0]} failed"])[0])
