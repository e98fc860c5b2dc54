"""``--harness-audit``: tests run although they are marked as skipped or expected to fail.

What can be lifted: skip, skipif and xfail marks of pytest; the decorators of ``unittest`` and its flag
``__unittest_skip__``; the device gates of PyTorch's device-generic tests. What a test, its setup or a
decorator raises as a skip while it runs cannot, and is recorded as that skip.
"""

from __future__ import annotations

import types
import unittest
import unittest.case
from collections.abc import Callable
from typing import Any

import pytest

_MARKS = ("skip", "skipif", "xfail")
_GATE = "bypass_device_restrictions"
_LIFTED = ("skip", "expectedFailure")


class Auditing:
    """Lifts marks; made before any test file is imported."""

    def __init__(self, config: pytest.Config) -> None:
        config.option.runxfail = True
        self._kept = {name: getattr(unittest.case, name) for name in _LIFTED}
        _put({"skip": _no_skip, "expectedFailure": _unchanged})

    def pytest_unconfigure(self) -> None:
        """Give ``unittest`` its decorators back: a process may run several sessions."""
        _put(self._kept)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, obj: object) -> None:
        """A class, and functions of it, whose flag was set by hand."""
        if isinstance(obj, type) and issubclass(obj, unittest.TestCase):
            for marked in (obj, *(value for value in vars(obj).values() if callable(value))):
                if vars(marked).get("__unittest_skip__"):
                    marked.__unittest_skip__ = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Marks of items, of their classes and of their files; device gates of their classes."""
        for item in items:
            for node in item.listchain():
                node.own_markers[:] = [mark for mark in node.own_markers if mark.name not in _MARKS]
            owner = getattr(item, "cls", None)
            if owner is not None and hasattr(owner, _GATE):
                setattr(owner, _GATE, True)


def _put(functions: dict[str, Callable[..., Any]]) -> None:
    """``skipIf`` and ``skipUnless`` call ``skip`` of their module; others take them from the package."""
    for name, function in functions.items():
        setattr(unittest.case, name, function)
        setattr(unittest, name, function)


def _unchanged(test: Any) -> Any:
    return test


def _no_skip(reason: Any) -> Any:
    """Stands for ``unittest.skip``, which may be used without a reason, too."""
    return reason if isinstance(reason, types.FunctionType) else _unchanged
