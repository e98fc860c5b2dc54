"""A file that needs a package."""

import pytest

pytest.importorskip("no_such_package")


def test_never():
    pass
