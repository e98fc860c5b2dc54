"""Case ids from pytest's node ids: unique, stable, and free of the device's name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

DEFAULT_SUITE = "pytest"
NO_CLASS = "-"
"""Stands in an id for the class of a test that is in none."""

_SUITE = re.compile(r"[^:\s\[]+")
_CONTROL = re.compile(r"[\x00-\x1f]")


class Naming:
    """How one run names its cases: ``suite::file::class::test[variant]``.

    The file is relative to pytest's root and has ``/``; nested classes are joined by a dot.
    PyTorch's device-generic tests carry the device twice, ``TestOpsNEURON::test_add_neuron_float32``;
    both are left out: ``TestOps::test_add_float32``.

    Args:
        suite: first part of each id.
        device: torch device type under test.
        grouped: whether xdist runs with ``--dist loadgroup`` and so appends ``@group`` to node ids.

    Raises:
        ValueError: the suite cannot stand in an id.
    """

    def __init__(self, suite: str, device: str, *, grouped: bool = False) -> None:
        if not _SUITE.fullmatch(suite):
            raise ValueError(f"--harness-suite {suite!r}: a suite's name has no colon, space or bracket")
        self.suite = suite
        self.device = device
        self._grouped = grouped

    def ids(self, nodeids: Iterable[str]) -> dict[str, str]:
        """Map the node ids of a whole collection to case ids.

        Where leaving the device out would make two tests one, both keep it.
        """
        distinct = list(dict.fromkeys(nodeids))
        full = {nodeid: self._id(nodeid, generic=False) for nodeid in distinct}
        short = {nodeid: self._id(nodeid, generic=True) for nodeid in distinct}
        counts = Counter(short.values())
        mixed = {nodeid: short[nodeid] if counts[short[nodeid]] == 1 else full[nodeid] for nodeid in distinct}
        return mixed if len(set(mixed.values())) == len(distinct) else full

    def collection(self, nodeid: str) -> str:
        """The id of a file's, or a class's, own collection."""
        path, _, names = nodeid.partition("::")
        return self._join(path or ".", names.replace("::", ".") or NO_CLASS, "<collection>")

    def _id(self, nodeid: str, *, generic: bool) -> str:
        if self._grouped:
            nodeid = re.sub(r"@[^\]@]*$", "", nodeid)
        path, _, rest = nodeid.partition("::")
        names, bracket, variant = rest.partition("[")
        *classes, test = names.split("::")
        owner = ".".join(classes) or NO_CLASS
        if generic:
            owner, test = self._without_device(owner, test)
        return self._join(path, owner, test + bracket + variant)

    def _without_device(self, owner: str, test: str) -> tuple[str, str]:
        """Undo what ``instantiate_device_type_tests`` appends to the names of a class and its tests."""
        suffixes = (self.device.upper(), "PRIVATEUSE1")  # the first class of a process may have the second
        for suffix, device in zip(suffixes, (self.device, "privateuse1"), strict=True):
            if not owner.endswith(suffix) or owner == suffix:
                continue
            for name in (self.device, device):
                head, found, tail = test.rpartition(f"_{name}")
                if found and (not tail or tail.startswith("_")):
                    return owner.removesuffix(suffix), head + tail
        return owner, test

    def _join(self, *parts: str) -> str:
        whole = "::".join((self.suite, *parts))
        return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", whole)
