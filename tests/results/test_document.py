"""Documents: text is text, Markdown has a bound, and the HTML file asks for nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

import results
from results.document import MARKDOWN_BYTES, Document, Section, markdown, page, terminal
from results.report import render_report
from results.scoreboard import scoreboard
from results.tables import shown
from tests.results.factory import COMPLETE_RUN, HOSTILE, INCOMPLETE_RUN

EVIL = '<img src=x onerror=alert(1)></td></table><script src="//evil"></script>&amp;\u202e"\'' + HOSTILE


def document(rows: int = 1, text: str = EVIL) -> Document:
    table = Section(text, ("what", "n"), [{"what": text, "n": n} for n in range(rows)], code=("what",))
    return Document(text, (text,), (table, table), (text,), "`harness report X`")


class Tags(HTMLParser):
    """The tags, the attributes and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._open = tag

    def handle_data(self, data: str) -> None:
        if self._open == "code":
            self.cells.append(data)
            self._open = ""


SAFE_TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "section", "div", "table"),
    *("thead", "tbody", "tr", "th", "td", "code", "footer"),
}
SAFE_ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "role", "scope"}


@given(st.text() | st.just(EVIL))
def test_a_page_shows_any_text_as_text(text: str) -> None:
    found = Tags()
    found.feed(page(document(text=text)))
    assert found.tags <= SAFE_TAGS
    assert found.attributes <= SAFE_ATTRIBUTES
    if text:
        assert found.cells[0] == shown(text, 2000)


@pytest.mark.parametrize("run", [COMPLETE_RUN, INCOMPLETE_RUN])
def test_the_page_of_a_report_is_one_file(store: results.Store, run: str) -> None:
    board = scoreboard(store, run)
    text = render_report(board, "html")
    found = Tags()
    found.feed(text)
    assert found.tags <= SAFE_TAGS
    assert not re.search(r"<[^>]+\b(src|href|action|on\w+)=|url\(|@import", text)
    assert "default-src 'none'" in text
    assert ("INCOMPLETE" in text) == (run == INCOMPLETE_RUN)
    assert f"--run {run}" in "".join(found.cells)


def test_markdown_stays_below_its_bound_and_says_what_is_left_out() -> None:
    text = markdown(document(rows=5000))
    assert len(text.encode()) <= MARKDOWN_BYTES
    shown_rows = len(re.findall(r"(?m)^\| \\<img", text))
    left_out = sum(int(n.replace(",", "")) for n in re.findall(r"([\d,]+) more rows do not fit", text))
    assert 0 < shown_rows < 10_000
    assert shown_rows + left_out == 10_000
    assert "harness report X" in text


def test_markdown_that_fits_is_whole() -> None:
    text = markdown(document(rows=3))
    assert "more rows" not in text
    assert text.count("\n| \\<img") == 6


def test_a_terminal_shows_no_control_character() -> None:
    text = terminal(document(), width=200)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
