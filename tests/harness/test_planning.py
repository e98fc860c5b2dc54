"""Plans: expectations are given to cases, and an expectation of nothing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import planning
from harness.errors import UsageError
from harness.profiles import load_profile
from results.plan import Case
from results.vocabulary import CaseKind, Expectation

ENTRY = """
[[expect]]
id = "{id}"
expectation = "fail"
category = "harness_gap"
reason = "it is known"
added = 2026-11-01
"""


@pytest.fixture(autouse=True)
def two_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = [Case(id=f"opinfo::f::c::{name}", kind=CaseKind.OPINFO) for name in ("a", "b")]
    monkeypatch.setattr(planning, "_models", lambda *_: [])
    monkeypatch.setattr(planning, "_opinfo", lambda profile: tests)
    monkeypatch.setattr(planning, "_claims", lambda profile: [])


def plan(folder: Path, entry: str, **fields: object) -> tuple[dict[str, Expectation], list[str]]:
    path = folder / "expect.toml"
    path.write_text(entry)
    said: list[str] = []
    profile = load_profile(
        "default", {"expectations": [str(path)], "opinfo_selection": "all", **fields}, folder
    )
    cases = planning.plan_run(profile, "r", "", said.append).cases
    return {case.id[-1]: case.declared.expectation for case in cases}, said


def test_an_expectation_reaches_its_case_alone(tmp_path: Path) -> None:
    declared, said = plan(tmp_path, ENTRY.format(id="opinfo::f::c::a"))
    assert declared == {"a": Expectation.FAIL, "b": Expectation.PASS}
    assert not said


@pytest.mark.parametrize(("version", "expected"), [("2.13.*", Expectation.FAIL), ("1.*", Expectation.PASS)])
def test_an_expectation_of_another_torch_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, expected: Expectation
) -> None:
    monkeypatch.setattr(planning, "version", lambda package: {"torch": "2.13.0+cpu"}[package])
    entry = ENTRY.format(id="opinfo::f::c::a") + f'conditions = {{ torch = "{version}" }}\n'
    declared, _ = plan(tmp_path, entry)
    assert declared == {"a": expected, "b": Expectation.PASS}


def test_one_that_matches_nothing_is_said_with_what_it_may_have_meant(tmp_path: Path) -> None:
    _, said = plan(tmp_path, ENTRY.format(id="opinfo::f::c::aa"))
    assert len(said) == 1
    assert "did it mean 'opinfo::f::c::a'" in said[0]


def test_a_narrowed_selection_leaves_others_out_on_purpose(tmp_path: Path) -> None:
    entry = ENTRY.format(id="opinfo::f::c::z")
    assert plan(tmp_path, entry, test_filter="*a")[1] == []
    assert plan(tmp_path, entry, opinfo_selection="first")[1] == []
    assert plan(tmp_path, ENTRY.format(id="opinfo::f::c::z[bool]"))[1] == []
    assert plan(tmp_path, ENTRY.format(id="opinfo::op_db::add::noncontiguous[float32]"))[1] == []
    assert plan(tmp_path, ENTRY.format(id="other::f::c::z"))[1] == [], "no case of its suite was planned"


def test_many_that_match_nothing_are_counted_after_the_first(tmp_path: Path) -> None:
    _, said = plan(tmp_path, "".join(ENTRY.format(id=f"opinfo::f::c::z{n}") for n in range(9)))
    assert len(said) == 6
    assert said[-1].startswith("4 more expectations decide nothing")


def test_a_condition_on_torch_is_held_against_the_installed_one(tmp_path: Path) -> None:
    entry = ENTRY.format(id="opinfo::f::c::a")
    for torch, expected in (("2.*", Expectation.FAIL), ("1.*", Expectation.PASS)):
        declared, _ = plan(tmp_path, f'{entry}conditions = {{ torch = "{torch}" }}\n')
        assert declared["a"] is expected


def test_files_of_a_device_are_loaded_without_being_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packaged" / "more"
    folder.mkdir(parents=True)
    (folder / "known.toml").write_text(ENTRY.format(id="opinfo::f::c::b"))
    monkeypatch.setattr(planning, "packaged_expectations", lambda device: tmp_path / "packaged")
    declared, _ = plan(tmp_path, ENTRY.format(id="opinfo::f::c::a"))
    assert declared == {"a": Expectation.FAIL, "b": Expectation.FAIL}


@pytest.mark.parametrize("entry", ["[[expect]]\nid = 'x'\n", "[[", ENTRY.format(id="x") * 2])
def test_a_wrong_file_is_one_sentence(tmp_path: Path, entry: str) -> None:
    with pytest.raises(UsageError, match=r"expect\.toml"):
        plan(tmp_path, entry)
