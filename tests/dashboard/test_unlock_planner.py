"""The unlock planner of the page Operators: ticks, what they free, and what is proposed."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

from dashboard import shell
from tests.dashboard.conftest import OpenPage, assert_sound, text_of
from tests.results.factory import COMPLETE_RUN

ALL_THREE = ["aten::cumsum", "aten::topk", "aten::tril"]


def _freed(app: AppTest) -> tuple[str, str, str]:
    shown = {item.label: item.value for item in app.metric}
    return shown["Models freed"], shown["Tests freed"], shown["Unsupported no more"]


def _proposed(app: AppTest) -> list[list[str]]:
    steps = next(item.value for item in app.dataframe if "lower" in item.value.columns)
    return [list(ops) for ops in steps["lower"]]


def test_ticks_in_the_address_say_what_they_free(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.OPERATORS, run=COMPLETE_RUN)
    assert_sound(app)
    assert _freed(app) == ("0", "0", "0")
    assert _proposed(app)[0] == ["aten::cumsum"]
    assert _freed(open_page(nights, shell.OPERATORS, run=COMPLETE_RUN, unlock="aten::cumsum"))[0] == "1"
    ticked = open_page(nights, shell.OPERATORS, run=COMPLETE_RUN, unlock=ALL_THREE)
    assert _freed(ticked) == ("2", "0", "1")


def test_what_is_proposed_can_be_ticked_and_goes_into_the_address(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.OPERATORS, run=COMPLETE_RUN, unlock="aten::cumsum", unlock_more="2")
    assert _proposed(app) == [["aten::topk", "aten::tril"]]
    app.button(key="unlock_tick").click().run()
    assert_sound(app)
    assert app.multiselect(key="unlock").value == ALL_THREE
    assert _freed(app)[0] == "2"
    assert "No 2 more operators free a case by models" in text_of(app)
    left = next(item.value for item in app.dataframe if "left_over" in item.value.columns)
    assert dict(zip(left["model_id"], left["left_over"], strict=True)) == {
        "acme/tiny-bert": 0,
        "acme/tiny-gpt2": 0,
    }


def test_it_ranks_by_what_the_address_says(open_page: OpenPage, nights: Path) -> None:
    app = open_page(nights, shell.OPERATORS, run=COMPLETE_RUN, unlock_by="tests", unlock_more="1")
    assert _proposed(app) == [["aten::op00"]]
    assert "frees more than 4 tests" in text_of(app)
