"""``--harness-audit`` runs what is marked as skipped or expected to fail; what skips itself stays a skip."""

from __future__ import annotations

import unittest

import pytest

from results.vocabulary import Outcome

pytest_plugins = ["pytester"]

P, F, S = Outcome.PASSED, Outcome.FAILED_EXCEPTION, Outcome.SKIPPED_UPSTREAM

MARKED = """
import unittest
from unittest import skip, skipUnless
import pytest

@pytest.mark.skip(reason="r")
def test_mark_p(): pass
@pytest.mark.skipif(True, reason="r")
def test_condition_f(): assert 0
@pytest.mark.xfail(reason="r")
def test_xfail_f(): assert 0
@pytest.mark.xfail(reason="r", run=False)
def test_not_run_p(): pass
@pytest.mark.xfail(reason="r", strict=True)
def test_strict_p(): pass
@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.skip)])
def test_parameter_p(n): pass
def test_imperative_xfail_p(): pytest.xfail("r")
def test_body_s(): pytest.skip("r")

@pytest.mark.skip(reason="r")
class TestPlain:
    def test_in_class_p(self): pass

class TestCase(unittest.TestCase):
    @unittest.skip("r")
    def test_unittest_p(self): pass
    @skip
    def test_bare_f(self): assert 0
    @unittest.skipIf(True, "r")
    def test_unittest_if_p(self): pass
    @skipUnless(False, "r")
    def test_unless_f(self): assert 0
    @unittest.expectedFailure
    def test_expected_f(self): assert 0
    @unittest.expectedFailure
    def test_unexpected_p(self): pass
    def test_method_s(self): self.skipTest("r")
    def test_flagged_p(self): pass
    test_flagged_p.__unittest_skip__ = True

@unittest.skip("r")
class TestWhole(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.ready = True
    def test_whole_p(self): assert self.ready

class TestSetup(unittest.TestCase):
    def setUp(self): raise unittest.SkipTest("r")
    def test_setup_s(self): pass
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_marks_are_lifted_and_nothing_else(pytester: pytest.Pytester, record, workers) -> None:
    pytester.makepyfile(test_marked=MARKED)
    _, recorded = record("--harness-audit", *workers)
    letters = {"p": P, "f": F, "s": S}
    assert recorded.outcomes == {case: letters[case.partition("[")[0][-1]] for case in recorded.outcomes}
    assert len(recorded.outcomes) == MARKED.count("def test_")


def test_without_the_option_the_marks_hold(pytester: pytest.Pytester, record) -> None:
    pytester.makepyfile(test_marked=MARKED)
    _, recorded = record()
    failed = {case.rpartition("::")[2] for case, outcome in recorded.outcomes.items() if outcome is F}
    assert failed == {"test_strict_p", "test_unexpected_p"}


def test_unittest_has_its_decorators_back_afterwards(pytester: pytest.Pytester) -> None:
    before = (unittest.skip, unittest.case.skip, unittest.expectedFailure)
    pytester.makepyfile(test_a="import unittest\ndef test_a(): assert unittest.skip is unittest.case.skip")
    pytester.inline_run("--harness-audit", "-p", "no:cacheprovider").assertoutcome(passed=1)
    assert (unittest.skip, unittest.case.skip, unittest.expectedFailure) == before


GATED = """
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCUDA
from torch.testing._internal.common_utils import TestCase

class TestGated(TestCase):
    @onlyCUDA
    def test_gate(self, device): self.assertEqual(torch.ones(2, device=device).sum().item(), 2)

instantiate_device_type_tests(TestGated, globals(), only_for=("cpu",))
"""


def test_a_device_gate_is_lifted(pytester: pytest.Pytester, record) -> None:
    pytester.makepyfile(test_gated=GATED)
    _, gated = record("--harness-device", "cpu", log="gated")
    _, lifted = record("--harness-device", "cpu", "--harness-audit", log="lifted")
    assert (list(gated.outcomes.values()), list(lifted.outcomes.values())) == ([S], [P])
