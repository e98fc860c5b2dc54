"""Marks a test from outside its file, as vendors' skip lists do."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "test_marked_from_outside":
            item.add_marker(pytest.mark.skip(reason="on somebody's list"))
