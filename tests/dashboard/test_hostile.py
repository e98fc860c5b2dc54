"""Names are text, whatever is in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import look, shell
from tests.dashboard import hostile as names
from tests.dashboard.conftest import OpenPage, assert_sound

LIVE = re.compile(r"(?<!\\)(?:<img|\*\*b\*\*|\[l\]|:red\[|:smile:|\$y\$|<b>|<script)")
"""Markup of the hostile names that was not escaped."""

PAGES = {
    shell.OVERVIEW: {},
    shell.MODELS: {"q": names.EVIL[:20]},
    shell.MODEL: {"model": names.MODEL},
    shell.OPERATORS: {"gap": "';DROP"},
    shell.OPERATOR: {"op": names.OP},
    shell.TESTS: {"test_q": "<b>bold"},
    shell.TEST: {"case": names.TEST},
    shell.SKIPS: {"skip_q": "<b>"},
    shell.COMPARE: {},
    shell.RUN_PAGE: {},
}


@pytest.mark.parametrize("page", PAGES)
def test_no_page_interprets_a_name(open_page: OpenPage, hostile: Path, page: str) -> None:
    app = open_page(hostile, page, **PAGES[page])
    assert_sound(app)
    for button in app.button:
        assert not LIVE.findall(button.label), "a button would show a name as something else"
    for piece in [*app.title, *app.markdown, *app.caption, *app.warning, *app.info, *app.subheader]:
        assert not getattr(piece.proto, "allow_html", False)
        found = LIVE.findall(str(piece.value))
        assert not found, f"a {piece.type} would show {found} as something else"


def test_a_hostile_flake_and_the_case_that_disturbs_it_name_each_other(
    open_page: OpenPage, hostile: Path
) -> None:
    app = open_page(hostile, shell.TEST, case=names.FLAKY)
    assert_sound(app)
    labels = [button.label for button in app.button]
    assert look.plain(names.TEST) in labels
    assert not [label for label in labels if LIVE.findall(label)]
    other = open_page(hostile, shell.TEST, case=names.TEST)
    assert look.plain(names.FLAKY) in [button.label for button in other.button]


def test_a_hostile_name_is_found_and_shown_whole(open_page: OpenPage, hostile: Path) -> None:
    app = open_page(hostile, shell.MODELS, q=names.EVIL)
    assert next(list(item.value["model_id"]) for item in app.dataframe) == [names.MODEL]
    assert look.plain(names.MODEL) == open_page(hostile, shell.MODEL, model=names.MODEL).title[0].value


def test_a_name_of_10_kb_is_cut_in_a_title(open_page: OpenPage, hostile: Path) -> None:
    app: AppTest = open_page(hostile, shell.MODEL, model=names.LONG)
    assert_sound(app)
    assert len(app.title[0].value) < 400
    assert app.title[0].value.endswith("…")


def test_a_long_message_is_cut_and_says_by_how_much(open_page: OpenPage, hostile: Path) -> None:
    app = open_page(hostile, shell.MODEL, model=names.MODEL)
    longest = max((str(item.value) for item in app.code), key=len)
    assert longest.startswith(("Evil<b>: <script>", "<script>"))
    assert "more characters" in longest
    assert len(longest) < 21_000
