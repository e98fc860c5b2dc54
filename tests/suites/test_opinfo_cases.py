"""Selecting operators and listing their cases."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tomllib
from importlib import resources

import pytest

from results.plan import make_plan
from suites.opinfo import ALL, DEFAULT_DTYPES, FIRST, SelectionError, load_selection
from suites.opinfo.__main__ import main
from suites.opinfo.catalog import cases
from suites.opinfo.checks import CHECKS
from suites.opinfo.entries import DATABASES, entries, operators
from suites.opinfo.selection import check_names
from suites.opinfo.traits import load_traits
from tests.suites.conftest import ROOT


def selection_file(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


def test_the_first_slice_is_wide_and_makes_a_plan():
    found = cases()
    plan = make_plan(run="r", device="neuron", profile="p", cases=found)
    groups = tomllib.loads(resources.files("suites.opinfo").joinpath("first.toml").read_text())["ops"]
    assert all(len(group) >= 3 for group in groups.values())
    assert len({case.spec["op"] for case in found}) >= 250
    assert len(found) == len({case.spec["op"] for case in found}) * len(DEFAULT_DTYPES)
    assert [case.id for case in plan.cases] == [case.id for case in found]
    assert "opinfo::op_db::div.floor_rounding::forward[int64]" in {case.id for case in found}


def test_pairs_that_op_db_does_not_list_are_planned_with_the_reason():
    found = {case.id: case.spec for case in cases()}
    gelu = found["opinfo::op_db::nn.functional.gelu::forward[int64]"]
    assert gelu["unsupported"] == "op_db lists no int64 for this operator"
    assert "unsupported" not in found["opinfo::op_db::nn.functional.gelu::forward[float32]"]
    assert 50 < sum("unsupported" in spec for spec in found.values()) < len(found) / 4


def test_all_is_every_operator_of_the_installed_torch():
    found = cases(load_selection(ALL), ("float32",))
    assert sorted(case.spec["op"] for case in found) == sorted(operators())
    assert len(found) > 600


def test_an_unknown_operator_is_named_with_the_nearest(tmp_path):
    path = selection_file(tmp_path, '[ops]\nmine = ["add", "nn.functional.relux"]')
    with pytest.raises(
        SelectionError, match=r"'nn.functional.relux' \(did you mean 'nn.functional.relu'\?\)"
    ):
        cases(load_selection(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a table"),
        ("[ops", "expected a table"),
        ("[ops]\na = 3", "expected a table"),
        ("[ops]\na = [3]", "expected a table"),
        ("[ops]\n", "expected a table"),
        ('[ops]\na = ["add"]\nb = ["add"]', "named twice: add"),
    ],
)
def test_a_damaged_selection_is_refused(tmp_path, text, said):
    with pytest.raises(SelectionError, match=said):
        load_selection(selection_file(tmp_path, text))


def test_a_selection_that_is_not_there_is_refused():
    with pytest.raises(SelectionError, match="neither 'first', 'all' nor a file"):
        load_selection("nowhere.toml")


def test_an_unknown_dtype_is_refused():
    with pytest.raises(SelectionError, match="no dtype 'float33'"):
        cases(load_selection(), ("float33",))


def test_every_operator_that_traits_mention_exists():
    known = [name for database in DATABASES for name in entries(database)]
    check_names(load_traits().names(), known, "traits.toml")


def test_no_two_lists_have_an_entry_of_one_name():
    """Traits go by name alone."""
    known = [name for database in DATABASES for name in entries(database)]
    assert len(known) == len(set(known))


def test_all_lists_are_every_entry_of_each():
    found = cases(load_selection(ALL), ("float32",), ("forward",), (ALL,))
    assert {case.spec["database"] for case in found} == set(DATABASES)
    assert len(found) == len({case.id for case in found}) == sum(len(entries(name)) for name in DATABASES)


def test_a_selection_of_operators_leaves_the_other_lists_whole():
    found = cases(load_selection(), ("float32",), ("forward",), ("op_db", "foreach"))
    assert sum(case.spec["database"] == "foreach" for case in found) == len(entries("foreach"))


def test_an_unknown_check_or_list_is_refused():
    with pytest.raises(
        SelectionError, match=r"the suite has no check 'forwards' \(did you mean 'forward'\?\)"
    ):
        cases(checks=["forwards"])
    with pytest.raises(SelectionError, match=r"no list 'opdb' \(did you mean 'op_db'\?\)"):
        cases(databases=["opdb"])


def test_all_checks_of_an_operator_stand_side_by_side_in_a_plan(tmp_path):
    path = selection_file(tmp_path, '[ops]\nmine = ["div.floor_rounding", "div.no_rounding_mode", "add"]')
    found = cases(load_selection(path), ("float32", "bfloat16"), [ALL], ["op_db"])
    plan = make_plan(run="r", device="neuron", profile="p", cases=found)
    assert len(found) == 3 * 2 * len(CHECKS)
    changes = sum(one.spec["op"] != two.spec["op"] for one, two in itertools.pairwise(plan.cases))
    assert changes == 2


def test_the_command_prints_the_cases_and_what_the_checks_are(tmp_path, capsys):
    path = selection_file(tmp_path, '[ops]\nmine = ["add", "nn.functional.relu"]')
    assert main(["list", "--selection", path, "--dtypes", "float32,int64"]) == 0
    ids = capsys.readouterr().out.split()
    assert ids == [case.id for case in cases(load_selection(path), ("float32", "int64"))]
    assert main(["list", "--selection", "nowhere"]) == 2
    assert "neither 'first', 'all' nor a file" in capsys.readouterr().err
    assert main(["checks"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CHECKS)


def test_every_list_has_entries_and_makes_cases():
    found = cases(load_selection(FIRST), ("float32",), ["forward"], [ALL])
    assert {case.spec["database"] for case in found} == set(DATABASES)


def test_importing_the_package_imports_no_torch():
    script = "import sys; import suites.opinfo; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_default_selection_is_the_first_slice():
    assert load_selection() == load_selection(FIRST)
