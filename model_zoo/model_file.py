"""A model that a Python file makes: the file's own code, weights and inputs, run by whoever names the file.

Such a file defines two functions:

- ``make_model() -> torch.nn.Module``: on the CPU, in the mode (``eval`` or ``train``) it is to be run in;
- ``make_inputs(model, seed) -> dict``: the keyword arguments of one call, tensors on the CPU, the same for
  the same seed.

It may define ``MODALITIES``, a tuple of what its inputs exercise: ``text, image, video, audio, time_series``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from model_zoo.inputs import ModelInputs
from model_zoo.load import LoadedModel, LoadError, LoadReason


def load_file(path: Path) -> LoadedModel:
    """Run a file and have it make its model.

    Raises:
        LoadError: the file cannot be run, lacks a function, needs a package that is not installed, or gives
            something that is no module.
    """
    make = _function(_module(path), "make_model", path)
    model = _called(make, path)
    if not isinstance(model, torch.nn.Module):
        raise LoadError(
            LoadReason.FAILED,
            f"make_model of {path.name} gave a {type(model).__name__}, not a torch.nn.Module",
        )
    parameters = list(model.parameters())
    return LoadedModel(
        model=model,
        architecture=type(model).__name__,
        parameters=sum(parameter.numel() for parameter in parameters),
        dtype=str(parameters[0].dtype).removeprefix("torch.") if parameters else "",
        missing_keys=(),
        unexpected_keys=(),
    )


def inputs_of_file(path: Path, model: torch.nn.Module, *, seed: int) -> ModelInputs:
    """The inputs that a file makes for its model.

    Raises:
        LoadError: as :func:`load_file`, or what it gives is no mapping of names.
    """
    module = _module(path)
    kwargs = _called(_function(module, "make_inputs", path), path, model, seed)
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        given = type(kwargs).__name__
        raise LoadError(
            LoadReason.FAILED,
            f"make_inputs of {path.name} gave a {given}, not the keyword arguments of a call",
        )
    return ModelInputs(kwargs, tuple(sorted(getattr(module, "MODALITIES", ()))), has_labels=False)


def _module(path: Path) -> ModuleType:
    """The module of a file, run once a process."""
    name = f"_model_file_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise LoadError(LoadReason.FAILED, f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        _called(lambda: spec.loader.exec_module(module), path)  # type: ignore[union-attr]
    except LoadError:
        del sys.modules[name]
        raise
    return module


def _function(module: ModuleType, name: str, path: Path) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        raise LoadError(LoadReason.FAILED, f"{path.name} defines no function {name}")
    return function


def _called(function: Callable[..., Any], path: Path, *args: Any) -> Any:
    try:
        return function(*args)
    except LoadError:
        raise
    except ModuleNotFoundError as error:
        raise LoadError(
            LoadReason.NEEDS_PACKAGE, f"{path.name} needs {error.name}, which is not installed"
        ) from error
    except Exception as error:
        raise LoadError(LoadReason.FAILED, f"{path.name} raised {type(error).__name__}: {error}") from error
