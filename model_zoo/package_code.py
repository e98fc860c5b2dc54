"""Imports a module of an installed package without running the ``__init__`` of what it lies in."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import Any

from model_zoo.load import LoadError, LoadReason


def module_of(package: str, name: str, *, without: tuple[str, ...] = ()) -> ModuleType:
    """A module of an installed package, without running the ``__init__`` of what it lies in.

    Args:
        package: name of the distribution.
        name: full name of the module, e.g. ``legere.model``.
        without: full names of modules that it imports and its network does not use; anything taken from them
            is ``None``.

    Raises:
        LoadError: the package is not installed.
    """
    folder = package_folder(package, name.partition(".")[0])
    parents = name.split(".")[:-1]
    for depth in range(1, len(parents) + 1):
        _put(_bare(".".join(parents[:depth]), [str(folder.joinpath(*parents[1:depth]))]))
    for absent in without:
        _put(_empty(absent))
    return importlib.import_module(name)


def package_folder(package: str, module: str) -> Path:
    """Where an installed distribution keeps its package.

    Raises:
        LoadError: it is not installed.
    """
    try:
        return Path(str(distribution(package).locate_file(module)))
    except PackageNotFoundError as error:
        message = f"package {package} is not installed (pip install --no-deps {package})"
        raise LoadError(LoadReason.NEEDS_PACKAGE, message) from error


def _put(module: ModuleType) -> None:
    sys.modules.setdefault(module.__name__, module)


def _bare(name: str, path: list[str]) -> ModuleType:
    module = ModuleType(name)
    module.__path__ = path
    module.__spec__ = importlib.util.spec_from_loader(name, loader=None, is_package=True)
    return module


class _Empty(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def _empty(name: str) -> ModuleType:
    module = _Empty(name)
    module.__path__ = []
    return module
