"""Reports show what views say, in every form, whatever the strings hold."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import results
from results.gaps import render_gaps
from results.report import print_report, render_report, sections
from results.scoreboard import Rate, Scoreboard, percent, scoreboard
from results.tables import CELL, Format, markdown_text, one_line, render, shown
from tests.results import hurt
from tests.results.checks import make_checks
from tests.results.factory import COMPLETE_RUN, HOSTILE, INCOMPLETE_RUN

ROWS = [{"name": HOSTILE, "count": 3, "share": float("nan"), "list": ["a", "b"], "none": None}]


def test_an_incomplete_run_says_so_in_every_form_for_people(store: results.Store) -> None:
    board = scoreboard(store, INCOMPLETE_RUN)
    said = "INCOMPLETE: 3 of 208 cases have no result; the run ended interrupted: Ctrl-C"
    assert board.banner == said
    assert said in render_report(board, Format.TABLE, width=160)
    assert said in render_report(board, Format.MD)
    assert json.loads(render_report(board, Format.JSON))["banner"] == said
    assert "run,cases with a result,205,208\n" in render_report(board, Format.CSV)


def test_a_run_in_which_all_fails_alike_says_so_before_anything_else(tmp_path: Path) -> None:
    with results.open(hurt.uniform_store(tmp_path, failing=19, passing=1)) as store:
        board = scoreboard(store)
    assert board.complete
    assert board.common_failure is not None
    assert (board.common_failure.cases, board.common_failure.judged) == (19, 20)
    assert board.banner.startswith("INFRASTRUCTURE: 19 of the 20 cases that ran, of 19 operators")
    assert "(RuntimeError: no device at 0x7f00)" in board.banner
    first_lines = render_report(board, Format.TABLE, width=400).splitlines()[:2]
    assert first_lines[1] == board.banner
    assert "INFRASTRUCTURE" in render_report(board, Format.MD).splitlines()[2]
    assert json.loads(render_report(board, Format.JSON))["common_failure"]["cases"] == 19


def test_a_complete_run_has_no_banner(store: results.Store) -> None:
    board = scoreboard(store, COMPLETE_RUN)
    assert (board.banner, board.missing_reasons) == ("", {})
    for form in (Format.TABLE, Format.MD):
        assert "INCOMPLETE" not in render_report(board, form)


@pytest.mark.parametrize("form", [Format.TABLE, Format.MD])
def test_a_report_has_each_part_of_a_night(store: results.Store, form: Format) -> None:
    text = render_report(scoreboard(store, COMPLETE_RUN), form, width=160).replace("\\", "")
    for part in (
        "7 counted of 8 planned",
        "6 of 7 (85.7%)",
        "185 of 196 (94.4%)",
        "180 of 196 (91.8%)",
        "aten::cumsum",
        "max abs error",
        "10 regression",
        "Worker processes that died: 2",
        "coverage.duckdb",
        "harness dashboard --store",
    ):
        assert part in text


@pytest.fixture(scope="module")
def hurt_board(tmp_path_factory: pytest.TempPathFactory) -> Scoreboard:
    with results.open(hurt.make_hurt_store(tmp_path_factory.mktemp("hurt"), tail=HOSTILE)) as store:
        return scoreboard(store)


@pytest.mark.parametrize("form", [Format.TABLE, Format.MD])
def test_flakes_deaths_and_resumes_are_shown(hurt_board: Scoreboard, form: Format) -> None:
    text = render_report(hurt_board, form, width=220).replace("\\", "")
    for part in (
        "resumed 2 times",
        "Flakes: passed in one attempt, failed in another: 2",
        "failed_numeric, passed",
        "crashed, passed",
        f"Worker processes that died: {hurt.DEATHS}",
        "A signal ended it that the harness did not send.",
        f"worker-1, in forward of {hurt.MODEL.id}"[:60],
        "worker-4, in no case",
        "The run was stopped while it worked.",
        "2 flake",
    ):
        assert part in text
    (row,) = [line for line in text.splitlines() if hurt.FLAKY.id in line]
    assert hurt.CULPRIT.id in row


def test_flakes_and_deaths_in_the_forms_for_programs(hurt_board: Scoreboard) -> None:
    parsed = json.loads(render_report(hurt_board, Format.JSON))
    assert (parsed["resumes"], parsed["flaky_cases"], parsed["worker_deaths"]) == (2, 2, 4)
    assert {
        "case": hurt.FLAKY.id,
        "outcomes": ["failed_numeric", "passed"],
        "disturbed_by": [hurt.CULPRIT.id],
        "experiments": 4,
    } in (parsed["flakes"])
    deaths = {row["fate"]: (row["deaths"], row["example_case"]) for row in parsed["deaths"]}
    assert deaths == {
        "signalled": (2, hurt.MODEL.id),
        "died_at_start": (1, ""),
        "interrupted": (1, hurt.RETRIED.id),
    }
    text = render_report(hurt_board, Format.CSV)
    for line in ("run,resumes,2,", "run,flakes,2,9", "run,worker deaths,4,", "worker deaths,signalled,2,4"):
        assert f"{line}\n" in text


def test_a_night_without_deaths_says_so_in_a_line(store: results.Store, hurt_board: Scoreboard) -> None:
    quiet = dataclasses.replace(hurt_board, deaths=(), flakes=(), flaky_cases=0, resumes=0)
    text = render_report(quiet, Format.TABLE, width=160)
    assert "Worker processes that died: 0." in text
    assert "Flakes" not in text
    assert "resumed" not in text


def test_the_flakes_of_a_report_are_bounded_and_counted(tmp_path: Path) -> None:
    with results.open(hurt.make_hurt_store(tmp_path)) as store:
        board = scoreboard(store, flakes=1)
    assert "failed in another: 2, the first 1" in render_report(board, Format.MD)
    assert len(board.flakes) == 1


def test_checks_are_told_apart_where_a_run_has_several(tmp_path: Path, store: results.Store) -> None:
    with results.open(make_checks(tmp_path)) as checks:
        board = scoreboard(checks, None)
    (section,) = [found for found in sections(board) if found.title == "Checks of suite opinfo"]
    assert [(row["list"], row["check"], row["passed"]) for row in section.rows] == [
        ("foreach", "forward", "1 of 1 (100.0%)"),
        ("op_db", "backward", "0 of 1 (0.0%)"),
        ("op_db", "forward", "2 of 3 (66.7%)"),
    ]
    assert "Checks of suite opinfo" not in {found.title for found in sections(scoreboard(store, None))}


def test_the_outcomes_of_a_suite_add_up_to_its_plan(store: results.Store) -> None:
    for suite in scoreboard(store, INCOMPLETE_RUN).suites:
        assert sum(suite.outcomes.values()) == suite.planned


def test_hostile_text_is_neither_markup_nor_control(store: results.Store) -> None:
    board = scoreboard(store, COMPLETE_RUN, failures=100)
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system="truecolor")
    print_report(board, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "[red]boom[/red]" in text
    assert "\\x1b[31mb\\x00c\\n\\r" in text
    assert "\x1b[31mb" not in text
    assert "x" * CELL not in text
    markdown = render_report(board, Format.MD)
    assert "<script>" not in markdown.replace("\\<script", "")
    row = next(line for line in markdown.splitlines() if "boom" in line)
    assert row.replace("\\|", "").count("|") == 6


def test_json_and_csv_are_whole_and_valid() -> None:
    parsed = json.loads(render(ROWS, Format.JSON))
    assert parsed == [{"name": HOSTILE, "count": 3, "share": "nan", "list": ["a", "b"], "none": None}]
    read = list(csv.reader(io.StringIO(render(ROWS, Format.CSV))))
    assert read[0] == ["name", "count", "share", "list", "none"]
    assert read[1] == [one_line(HOSTILE), "3", "nan", '["a", "b"]', ""]


def test_columns_choose_and_order_and_an_empty_list_keeps_its_header() -> None:
    assert render(ROWS, Format.CSV, columns=("count", "list")).splitlines()[0] == "count,list"
    assert render([], Format.CSV, columns=("a", "b")) == "a,b\n"
    assert render([], Format.JSON, columns=("a",)) == "[]\n"
    assert render([], Format.MD, columns=("a",)) == "| a |\n| --- |\n"


@given(st.text(st.characters(), max_size=300))
def test_what_people_are_shown_is_one_short_printable_line(text: str) -> None:
    for line in (shown(text), one_line(text)):
        assert len(line.splitlines()) <= 1
        assert "\x1b" not in line
        line.encode("utf-8")
    assert len(shown(text)) <= CELL
    assert "|" not in markdown_text(text).replace("\\|", "")


@pytest.mark.parametrize(
    ("numerator", "denominator", "text"),
    [(0, 5, "0.0%"), (5, 5, "100.0%"), (99_999, 100_000, "99.9%"), (1, 100_000, "0.1%"), (3, 7, "42.9%")],
)
def test_only_all_are_all_and_only_none_are_none(numerator: int, denominator: int, text: str) -> None:
    assert percent(numerator, denominator) == text


def test_a_rate_shows_what_it_is_a_rate_of() -> None:
    assert str(Rate(3, 4)) == "3 of 4 (75.0%)"
    assert (str(Rate(0, 0)), Rate(0, 0).share) == ("0 of 0", None)


@pytest.mark.parametrize("form", Format)
def test_gaps_in_every_form(store: results.Store, form: Format) -> None:
    text = render_gaps(store, COMPLETE_RUN, form, limit=2, width=160)
    assert "aten::cumsum" in text
    assert "aten::topk" in text
    assert "aten::op00" not in text


def test_gaps_of_a_run_that_is_not_there(store: results.Store) -> None:
    with pytest.raises(results.StoreError, match="no run 'x'"):
        render_gaps(store, "x")
