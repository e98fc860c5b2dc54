"""Makes PyTorch's test machinery come out the same in every process.

What differs without it, in torch 2.13: the first device-generic class of a process is named
``TestXPRIVATEUSE1`` and every later one ``TestXNEURON``, because instantiating the first one changes
``PrivateUse1TestBase.device_type``; tests are defined in the order of sets of strings and of dtypes, which
hash by address.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import wraps
from typing import Any

_MAKERS = ("torch.testing._internal.common_device_type", "torch.testing._internal.common_modules")
_CUSTOM = "PYTORCH_TESTING_DEVICE_FOR_CUSTOM"
_LISTS = ("slow_tests_dict", "disabled_tests_dict")


class SortedSet(set[Any]):
    """A set that iterates by the names of its members; what it derives keeps the property."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__(), key=str))

    def intersection(self, *others: Any) -> SortedSet:
        """As ``set.intersection``."""
        return SortedSet(super().intersection(*others))

    def difference(self, *others: Any) -> SortedSet:
        """As ``set.difference``."""
        return SortedSet(super().difference(*others))


class IndexedTests(dict[str, Any]):
    """A list of disabled or slow tests, ``"test_x (module.TestY)"`` to what is said of it.

    PyTorch goes through the whole list for each test. This one shows it only the entries that name the test
    at hand (:meth:`look_for`), in the list's order, so what is decided stays the same.
    """

    def __init__(self, entries: Mapping[str, Any]) -> None:
        super().__init__(entries)
        self._by_test: dict[str, list[str]] = defaultdict(list)
        for entry in entries:
            for name in entry.split()[:1]:
                self._by_test[name].append(entry)
        self._order = {entry: place for place, entry in enumerate(entries)}
        self._shown: list[str] = []

    def look_for(self, *names: str) -> None:
        """Show the entries of the tests so named from now on."""
        found = {entry for name in names for entry in self._by_test.get(name, ())}
        self._shown = sorted(found, key=self._order.__getitem__)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shown)

    def items(self) -> Any:
        """The entries shown, with what is said of them."""
        return [(entry, self[entry]) for entry in self._shown]


def make_repeatable() -> None:
    """Patch ``torch.testing._internal`` of this process; call it before a test file is imported."""
    from torch.testing._internal import common_device_type

    sort_sets(common_device_type)
    name_privateuse1(common_device_type)
    index_test_lists()


def sort_sets(common_device_type: Any) -> None:
    """Let sets of dtypes and of names iterate by name where device-generic tests are made from them."""
    instantiate = common_device_type.instantiate_device_type_tests

    @wraps(instantiate)
    def instantiate_device_type_tests(*arguments: Any, **options: Any) -> None:
        for name in _MAKERS:  # importing common_modules takes seconds, and few files do
            if name in sys.modules:
                vars(sys.modules[name])["set"] = SortedSet  # shadows the builtin there
        instantiate(*arguments, **options)

    common_device_type.instantiate_device_type_tests = instantiate_device_type_tests


def name_privateuse1(common_device_type: Any) -> None:
    """Name every device-generic class by the device, the first one too.

    PyTorch compares ``PYTORCH_TESTING_DEVICE_FOR_CUSTOM`` with the same name that changes, so that
    ``privateuse1`` there would mean the device for the first class only; it gets the device's name beside it.
    """
    base = common_device_type.PrivateUse1TestBase
    if base not in common_device_type.device_type_test_bases:
        return
    base.setUpClass()
    custom = os.environ.get(_CUSTOM, "").split(",")
    if "privateuse1" in custom:
        os.environ[_CUSTOM] = ",".join([*custom, base.device_type])


def index_test_lists() -> None:
    """Look tests up in ``DISABLED_TESTS_FILE`` and ``SLOW_TESTS_FILE`` instead of going through them."""
    from torch.testing._internal import common_utils

    lists = {name: IndexedTests(vars(common_utils)[name]) for name in _LISTS}
    vars(common_utils).update(lists)
    check = common_utils.check_if_enable

    @wraps(check)
    def check_if_enable(test: Any) -> None:
        name = test._testMethodName
        short = common_utils.remove_device_and_dtype_suffixes(name)
        for entries in lists.values():
            entries.look_for(name, short)
        check(test)

    common_utils.check_if_enable = check_if_enable
