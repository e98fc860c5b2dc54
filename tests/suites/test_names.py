"""Case ids made from pytest's node ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.plan import Case, make_plan
from results.vocabulary import CaseKind
from suites.recording.names import Naming

NEURON = Naming("up", "neuron")


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("a/test_f.py::test_x", "up::a/test_f.py::-::test_x"),
        ("test_f.py::C::D::test_x[a::b[1]]", "up::test_f.py::C.D::test_x[a::b[1]]"),
        ("test_f.py::TestXNEURON::test_add_neuron_float32", "up::test_f.py::TestX::test_add_float32"),
        ("test_f.py::TestXPRIVATEUSE1::test_add_neuron", "up::test_f.py::TestX::test_add"),
        # The device is generated only where class and test both carry it, and the last mention is it.
        ("test_f.py::TestXNEURON::test_to_neuron_neuron_int8", "up::test_f.py::TestX::test_to_neuron_int8"),
        ("test_f.py::TestXNEURON::test_neurons", "up::test_f.py::TestXNEURON::test_neurons"),
        ("test_f.py::TestX::test_to_neuron", "up::test_f.py::TestX::test_to_neuron"),
        ("test_f.py::NEURON::test_a_neuron", "up::test_f.py::NEURON::test_a_neuron"),
        ("test_f.py::test_x[a\nb]", "up::test_f.py::-::test_x[a\\x0ab]"),
    ],
)
def test_an_id_has_four_parts_and_no_device(nodeid, expected):
    assert NEURON.ids([nodeid]) == {nodeid: expected}


def test_two_tests_that_would_become_one_keep_the_device():
    nodeids = [
        "f.py::TNEURON::test_a_neuron_b",
        "f.py::TNEURON::test_a_b_neuron",
        "f.py::TNEURON::test_c_neuron",
    ]
    assert list(NEURON.ids(nodeids).values()) == [
        "up::f.py::TNEURON::test_a_neuron_b",
        "up::f.py::TNEURON::test_a_b_neuron",
        "up::f.py::T::test_c",
    ]


def test_the_group_that_xdist_appends_is_no_part_of_an_id():
    nodeids = ["f.py::test_a@slow", "f.py::test_b[x@y]", "f.py::test_b[x@z]@slow"]
    assert list(Naming("up", "cpu", grouped=True).ids(nodeids).values()) == [
        "up::f.py::-::test_a",
        "up::f.py::-::test_b[x@y]",
        "up::f.py::-::test_b[x@z]",
    ]


@pytest.mark.parametrize("suite", ["", "a::b", "a b", "a[b"])
def test_a_suite_that_would_break_ids_is_refused(suite):
    with pytest.raises(ValueError, match="harness-suite"):
        Naming(suite, "cpu")


PIECES = st.lists(
    st.sampled_from(["_neuron", "_float32", "_a", "NEURON", "T", "\x07"]), min_size=1, max_size=4
)
NAMES = st.lists(PIECES.map("".join), min_size=1, max_size=3).map("::".join)
VARIANTS = st.sampled_from(["", "[x]", "[a::b]", "[_neuron]"])


@given(st.sets(st.builds("f.py::{}{}".format, NAMES, VARIANTS), min_size=1, max_size=8))
def test_any_collection_makes_a_valid_plan_with_one_case_a_test(nodeids):
    ids = NEURON.ids(sorted(nodeids))
    cases = [Case(id=name, kind=CaseKind.PYTEST) for name in ids.values()]
    plan = make_plan(run="r", device="neuron", profile="p", cases=cases)
    assert len(plan.cases) == len(nodeids)
