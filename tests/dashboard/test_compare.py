"""The page Compare: the two runs, the classes with their denominators, its filters and its empty states."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import look, shell
from results.changes import CHANGES, Change
from tests.dashboard import hostile as names
from tests.dashboard.conftest import OpenPage, assert_sound, text_of
from tests.dashboard.hostile import make_hostile_store
from tests.dashboard.test_pages import table
from tests.results.changes import AFTER, BEFORE, ELSEWHERE, make_changed_store
from tests.results.factory import COMPLETE_RUN, make_store


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_changed_store(tmp_path_factory.mktemp("changed"))


def counted(app: AppTest) -> dict[str, tuple[int, int]]:
    """Cases and denominator of each class, as the page shows them."""
    shown = next(item.value for item in app.dataframe if "of_what" in item.value.columns)
    return {row["class"]: (row["cases"], row["of"]) for row in shown.to_dict("records")}


def test_every_class_is_shown_with_its_denominator(open_page: OpenPage, changed: Path) -> None:
    app = open_page(changed, shell.COMPARE, run=AFTER, before=BEFORE)
    assert_sound(app)
    shown = counted(app)
    assert list(shown) == [change.replace("_", " ") for change in Change]
    assert shown["regressed"] == (3, 6)
    assert shown["not run"] == (1, 13)
    assert shown["unchanged"] == (2, 14)
    figures = {item.label: item.value for item in app.metric}
    assert figures["For the worse"] == "5"
    assert "of 6 that passed before" in text_of(app)
    assert CHANGES[Change.REMOVED].meaning in table(app, "meaning")


def test_what_is_incomplete_and_what_differs_is_said(open_page: OpenPage, changed: Path) -> None:
    app = open_page(changed, shell.COMPARE, run=AFTER, before=BEFORE)
    assert any("INCOMPLETE: 1 of 13 cases have no result" in item.value for item in app.warning)
    assert table(app, "before") != table(app, "after")
    assert {"torch", "driver", "setting workers"} <= set(table(app, "name"))


def test_the_worst_stands_first_and_what_is_unchanged_is_left_out(open_page: OpenPage, changed: Path) -> None:
    app = open_page(changed, shell.COMPARE, run=AFTER, before=BEFORE)
    cases = table(app, "after_stage")
    assert len(cases) == 12
    assert table(app, "change")[:2] == ["regressed", "earlier stage"]


@pytest.mark.parametrize(
    ("query", "cases"),
    [
        ({"change": ["regressed"]}, 3),
        ({"change": ["regressed", "earlier_stage"], "change_suite": ["model"]}, 2),
        ({"change": ["unchanged"]}, 2),
        ({"change_q": "hidden"}, 1),
        ({"change_q": "MAX abs"}, 1),
    ],
)
def test_cases_are_filtered_by_the_address(
    open_page: OpenPage, changed: Path, query: dict[str, str | list[str]], cases: int
) -> None:
    app = open_page(changed, shell.COMPARE, run=AFTER, before=BEFORE, **query)
    assert_sound(app)
    assert len(table(app, "after_stage")) == cases


def test_a_filter_that_leaves_nothing_says_so(open_page: OpenPage, changed: Path) -> None:
    app = open_page(changed, shell.COMPARE, run=AFTER, before=BEFORE, change_q="'; DROP TABLE")
    assert "No case matches these filters." in text_of(app)
    assert_sound(app)


def test_the_run_before_is_what_it_compares_with(open_page: OpenPage, changed: Path) -> None:
    app = open_page(changed, shell.COMPARE, run=AFTER)
    assert f"Before: {look.plain(BEFORE)}" in text_of(app)
    app = open_page(changed, shell.COMPARE, run=ELSEWHERE)  # the first of its device
    assert f"Before: {look.plain(AFTER)}" in text_of(app)


def test_a_run_that_cannot_be_compared_with_is_named(open_page: OpenPage, changed: Path) -> None:
    for asked, why in (("2020", "is not in the store"), (AFTER, "is the run that is shown")):
        app = open_page(changed, shell.COMPARE, run=AFTER, before=asked)
        assert_sound(app)
        assert any(why in item.value for item in app.warning)


def test_equal_runs_are_all_well(open_page: OpenPage, changed: Path) -> None:
    app = open_page(changed, shell.COMPARE, run=BEFORE, before=ELSEWHERE)
    assert "Every case came out as before." in text_of(app)
    assert "Nothing fails that did not fail like that before." in text_of(app)


def test_one_run_has_nothing_to_compare_with(open_page: OpenPage, tmp_path: Path) -> None:
    app = open_page(make_store(tmp_path, incomplete=False), shell.COMPARE)
    assert_sound(app)
    assert "`harness nightly` makes the next one" in text_of(app)


def test_hostile_names_are_compared_as_text(open_page: OpenPage, tmp_path: Path) -> None:
    store = make_hostile_store(make_store(tmp_path, incomplete=False))
    app = open_page(store, shell.COMPARE, run=names.RUN, before=COMPLETE_RUN)
    assert [str(item.message) for item in app.exception] == []
    assert names.TEST in [
        case for item in app.dataframe if "case_id" in item.value.columns for case in item.value["case_id"]
    ]
