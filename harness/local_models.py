"""Cases of models that no hub serves: a folder, a Python file, and the models inside packages of PyPI."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from harness.errors import UsageError
from model_zoo.packages import FILE, PackagedModel, packaged_models
from results.plan import Case
from results.vocabulary import CaseKind

FOLDER = "folder"
"""Key of a case's spec: the folder of its model, with a configuration and weights."""


def packaged_cases() -> list[Case]:
    """One for each packaged model whose package is installed, whatever its version."""
    return [_packaged_case(model) for model in packaged_models() if model.installed]


def local_case(name: str) -> Case | None:
    """The case of a Python file or a folder; ``None`` if the name is that of a model of a hub.

    A name is a path if it ends in ``.py`` or begins with ``/``, ``.`` or ``~``.

    Raises:
        UsageError: it is a path, and there is neither a file nor a folder with a ``config.json``.
    """
    if not name.endswith(".py") and not name.startswith(("/", "./", "../", "~")) and name not in (".", ".."):
        return None
    path = Path(name).expanduser().resolve()
    if path.suffix == ".py" and path.is_file():
        return _case(path.name, _digest([path]), {FILE: str(path)})
    if (path / "config.json").is_file():
        return _case(path.name, _digest(sorted(path.glob("*.json"))), {FOLDER: str(path)})
    raise UsageError(
        f"{name} is neither a Python file nor a folder with a config.json; a model of a hub is org/name"
    )


def _packaged_case(model: PackagedModel) -> Case:
    spec = {FILE: model.file, "task": model.task, "library": "pytorch", "downloads": 0}
    return _case(model.id, model.installed, spec)


def _case(name: str, revision: str, spec: dict[str, object]) -> Case:
    spec = {"repo_id": name, "revision": revision, **spec}
    return Case(id=f"model::{name}@{revision}", kind=CaseKind.MODEL, spec=spec)


def _digest(paths: Iterable[Path]) -> str:
    """Which version of some files this is: the first 12 hexadecimal digits of the SHA-256 of all of them."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
