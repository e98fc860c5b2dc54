"""Functions in pytest's own style."""

import unittest

import pytest

TEST_CUDA = False


@pytest.mark.skip(reason="has been broken for years")
def test_unconditional():
    pass


@pytest.mark.skipif(not TEST_CUDA, reason="wrong vendor")
def test_condition():
    pass


@pytest.mark.parametrize("value", [1, pytest.param(2, marks=pytest.mark.skip(reason="two is odd here"))])
def test_parameter(value):
    pass


def test_body():
    pytest.skip("not today")


def test_package():
    pytest.importorskip("no_such_package")


@pytest.fixture
def refuses():
    pytest.skip("nothing to give")


def test_fixture(refuses):
    pass


@pytest.mark.xfail(reason="known bug")
def test_xfail():
    raise AssertionError


@pytest.mark.xfail(reason="known to crash", run=False)
def test_xfail_unrun():
    pass


def test_xfail_in_body():
    pytest.xfail("gave up")


def test_marked_from_outside():
    pass


class TestMarked:
    pytestmark = pytest.mark.skipif(not TEST_CUDA, reason="wrong vendor")

    def test_anything(self):
        pass


@unittest.skip("has been broken for years")
class TestWholeClass(unittest.TestCase):
    def test_anything(self):
        pass
