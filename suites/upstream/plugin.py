"""Loaded into pytest with ``-p suites.upstream.plugin`` when it collects or runs PyTorch's own test files.

It needs no ``conftest.py`` and leaves the files as they are. torch is imported first, which loads the
device's backend: PyTorch decides at the import of its test machinery which devices there are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch  # noqa: F401 - loads the device's backend before anything asks for devices

from suites.upstream.repeatable import make_repeatable


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Prepare PyTorch's test machinery, and for a batch leave out what is not in it."""
    root = str(config.rootpath)
    if root not in sys.path:
        sys.path.insert(0, root)  # files in folders below import from those in the root
    make_repeatable()
    job = config.getoption("--harness-job")
    if job:
        config.pluginmanager.register(OnlyBatch(json.loads(Path(job).read_text())["cases"]), "upstream-batch")


class OnlyBatch:
    """Makes only what a batch needs of a file with tens of thousands of tests.

    A template of a device-generic class of which the batch has no test is not instantiated, and a class of
    which it has none is not collected. The plan has fixed what is run; a test that would be missing here is
    reported as one that is not collected any more.

    Args:
        cases: of the batch: ``{"nodeid", "collection"}``. If one stands for a file's own collection, nothing
            is left out.
    """

    def __init__(self, cases: Iterable[Mapping[str, Any]]) -> None:
        self._tests: dict[str, set[str]] = {}
        self._whole = any(case["collection"] for case in cases)
        for case in cases:
            names = str(case["nodeid"]).split("::")[1:]
            if names:
                self._tests.setdefault(names[0] if len(names) > 1 else "", set()).add(names[-1])
        if not self._whole:
            self._instantiate_less()

    def pytest_pycollect_makeitem(self, collector: pytest.Collector, name: str, obj: Any) -> list[Any] | None:
        """No item for a class of which the batch has no test."""
        unwanted = isinstance(obj, type) and isinstance(collector, pytest.Module) and name not in self._tests
        return [] if unwanted and not self._whole else None

    def wants(self, owner: str, template: str) -> bool:
        """Whether the batch has a test of a class that a template makes."""
        return any(test == template or test.startswith(f"{template}_") for test in self._tests.get(owner, ()))

    def _instantiate_less(self) -> None:
        from torch.testing._internal.common_device_type import DeviceTypeTestBase

        original = DeviceTypeTestBase.instantiate_test.__func__  # type: ignore[attr-defined]
        wants = self.wants

        def instantiate_test(cls: Any, name: str, test: Any, *, generic_cls: Any = None) -> None:
            if wants(cls.__name__, name):
                original(cls, name, test, generic_cls=generic_cls)

        DeviceTypeTestBase.instantiate_test = classmethod(instantiate_test)  # type: ignore[assignment]
