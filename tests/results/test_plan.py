"""A plan is fixed: sorted, hashed, refused when it was changed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.plan import PLAN_FILE, Case, Declared, Plan, PlanError, load_plan, make_plan
from results.vocabulary import CaseKind, Expectation
from tests.results.factory import model_case, opinfo_case

json_values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
cases = st.lists(
    st.builds(
        Case,
        id=st.from_regex(r"[a-z]{1,5}::[a-z]{1,8}\[[^\x00-\x1f]{0,8}\]", fullmatch=True),
        kind=st.sampled_from([CaseKind.OPINFO, CaseKind.PYTEST]),
        spec=st.dictionaries(st.text(max_size=5), json_values, max_size=3),
        declared=st.builds(Declared, expectation=st.sampled_from(Expectation), reason=st.text(max_size=9)),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda case: case.id,
)


def _plan(found: list[Case], run: str = "r1") -> Plan:
    return make_plan(run=run, device="neuron", profile="smoke", cases=found)


@given(cases)
def test_a_plan_is_the_same_after_saving_and_loading(
    tmp_path_factory: pytest.TempPathFactory, found: list[Case]
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    plan = _plan(found)
    plan.save(folder)
    loaded = load_plan(folder)
    assert loaded == plan
    assert loaded.hash == plan.hash


@given(cases, st.randoms())
def test_the_hash_depends_on_the_work_and_not_on_order_or_run(
    found: list[Case], order: random.Random
) -> None:
    shuffled = list(found)
    order.shuffle(shuffled)
    assert _plan(shuffled, "another").hash == _plan(found).hash
    more = [*found, opinfo_case("one_more")]
    assert _plan(more).hash != _plan(found).hash


def test_duplicate_ids_are_refused() -> None:
    with pytest.raises(PlanError, match="two cases have the id"):
        _plan([opinfo_case(), opinfo_case("sub"), opinfo_case()])


def test_an_empty_plan_is_refused() -> None:
    with pytest.raises(PlanError, match="nothing was collected"):
        _plan([])


@pytest.mark.parametrize("wrong", ["model::a/b", "model::a b@c", "test_x", "s::line\nbreak", "::x"])
def test_an_id_of_another_form_is_refused(wrong: str) -> None:
    kind = CaseKind.MODEL if wrong.startswith("model") else CaseKind.PYTEST
    with pytest.raises(PlanError, match="not a valid"):
        _plan([Case(id=wrong, kind=kind)])


@pytest.mark.parametrize("run", ["", "../up", "a/b", ".hidden", "a b", "x" * 101])
def test_a_run_id_that_cannot_name_a_folder_is_refused(run: str) -> None:
    with pytest.raises(PlanError, match="cannot name a run"):
        _plan([opinfo_case()], run)


def test_stages_and_suite() -> None:
    assert [str(stage) for stage in model_case().stages] == [
        "fetch",
        "load",
        "forward",
        "backward",
        "compile",
    ]
    assert [str(stage) for stage in opinfo_case().stages] == ["test"]
    assert (model_case().suite, opinfo_case().suite) == ("model", "opinfo")


def test_a_plan_that_was_changed_later_is_refused(tmp_path: Path) -> None:
    _plan([opinfo_case()]).save(tmp_path)
    path = tmp_path / PLAN_FILE
    path.write_text(path.read_text().replace("float32", "float16"))
    with pytest.raises(PlanError, match="changed after the run began"):
        load_plan(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"version": 2}, "newer harness"), ({"cases": [{}]}, "damaged"), ({"run": 7}, "damaged|cannot name")],
)
def test_a_damaged_or_newer_plan_is_refused(tmp_path: Path, change: dict, message: str) -> None:
    _plan([opinfo_case()]).save(tmp_path)
    path = tmp_path / PLAN_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(PlanError, match=message):
        load_plan(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "null", "{", "\x00"])
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / PLAN_FILE).write_text(content)
    with pytest.raises(PlanError, match="damaged"):
        load_plan(tmp_path)


def test_a_folder_without_a_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="not a run's folder"):
        load_plan(tmp_path)
