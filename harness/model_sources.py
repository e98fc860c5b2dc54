"""Where a case's model comes from: a repository of a hub, a folder, or a Python file that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from harness import fetching
from harness.job import ModelSettings
from harness.local_models import FOLDER
from harness.lockin import is_locked_in
from harness.sandbox import REMOTE_CODE
from model_zoo.inputs import ModelInputs, make_inputs
from model_zoo.load import LoadedModel, load
from model_zoo.model_file import inputs_of_file, load_file
from model_zoo.packages import FILE, FILES


class ModelSource(Protocol):
    """One model, whose methods are called in their order."""

    def fetch(self) -> int:
        """Have it on this machine, and say how many bytes it is.

        Raises:
            FetchError: it cannot be had.
            LoadError: it can be had, and could not be loaded.
        """

    def load(self) -> LoadedModel:
        """The model on the CPU.

        Raises:
            LoadError: it cannot be loaded.
        """

    def inputs(self, model: torch.nn.Module) -> ModelInputs:
        """The inputs of one call, on the CPU; the same for the same seed.

        Raises:
            InputsError, LoadError: there is no way to make them.
        """


class Repository:
    """A repository of a hub at a pinned revision."""

    def __init__(self, spec: Mapping[str, Any], settings: ModelSettings) -> None:
        self._spec = spec
        self._settings = settings

    def fetch(self) -> int:
        """Download it, or find it in the cache."""
        self._folder = fetching.fetch_model(self._spec, self._settings)
        return _bytes_in(self._folder)

    def load(self) -> LoadedModel:
        """By transformers; its own code runs only where that was allowed."""
        return load(
            self._folder,
            seed=self._settings.seed,
            task=self._spec.get("task"),
            allow_missing=True,
            allow_code=bool(self._spec.get(REMOTE_CODE)) and is_locked_in(),
        )

    def inputs(self, model: torch.nn.Module) -> ModelInputs:
        """From the model's configuration and the signature of its ``forward``."""
        return make_inputs(model, seed=self._settings.seed)


class Folder(Repository):
    """A folder with a configuration and weights, as ``save_pretrained`` leaves them."""

    def fetch(self) -> int:
        """The folder is here."""
        self._folder = Path(self._spec[FOLDER])
        return _bytes_in(self._folder)


class ModelFile:
    """A Python file that makes a model and its inputs."""

    def __init__(self, path: Path, settings: ModelSettings) -> None:
        self._path = path
        self._settings = settings

    def fetch(self) -> int:
        """The file is here; what it needs shows when it is run."""
        return self._path.stat().st_size

    def load(self) -> LoadedModel:
        """Run the file."""
        torch.manual_seed(self._settings.seed)
        return load_file(self._path)

    def inputs(self, model: torch.nn.Module) -> ModelInputs:
        """As the file makes them."""
        return inputs_of_file(self._path, model, seed=self._settings.seed)


def source_of(spec: Mapping[str, Any], settings: ModelSettings) -> ModelSource:
    """The source that a case's spec names."""
    if FILE in spec:
        return ModelFile(FILES / spec[FILE], settings)
    return Folder(spec, settings) if FOLDER in spec else Repository(spec, settings)


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
