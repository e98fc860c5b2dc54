"""``harness diff`` and the files of ``harness report``, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import main
from tests.results.changes import AFTER, BEFORE, ELSEWHERE, make_changed_store
from tests.results.factory import COMPLETE_RUN, INCOMPLETE_RUN, make_store


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_changed_store(tmp_path_factory.mktemp("changed")))


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_store(tmp_path_factory.mktemp("nights")))


@pytest.mark.parametrize(
    ("before", "after", "gate", "code", "said"),
    [
        (BEFORE, AFTER, False, 0, ""),
        (BEFORE, AFTER, True, 1, "diff exits 1: 5 of 14 cases got worse"),
        (BEFORE, BEFORE, True, 0, ""),
        (BEFORE, ELSEWHERE, True, 0, ""),
    ],
)
def test_a_gate_fails_what_got_worse(
    changed: str,
    capsys: pytest.CaptureFixture[str],
    before: str,
    after: str,
    gate: bool,
    code: int,
    said: str,
) -> None:
    arguments = ["diff", before, after, "--store", changed, *(["--gate"] if gate else [])]
    assert main(arguments) == code
    printed = capsys.readouterr()
    assert said in printed.err
    assert "cases changed" in printed.out


def test_a_gate_does_not_pass_what_nobody_knows(nights: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", COMPLETE_RUN, INCOMPLETE_RUN, "--store", nights, "--gate"]) == 3
    assert f"run {INCOMPLETE_RUN} is incomplete, so nobody knows" in capsys.readouterr().err


def test_without_names_the_latest_is_compared_with_the_one_before(
    nights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "--store", nights, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["before"]["run"], record["after"]["run"]) == (COMPLETE_RUN, INCOMPLETE_RUN)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diff", "nope"], "has no run 'nope'"),
        (["diff", "previous", "previous"], "name one of them"),
        (["diff", "latest:tpu"], "no run on device 'tpu'"),
        (["diff", "--html", "no/such/folder/x.html"], "--html no/such/folder/x.html: not a file in a folder"),
        (["report", "--out", "no/such/folder/x.md"], "--out no/such/folder/x.md: not a file in a folder"),
    ],
)
def test_a_mistake_is_one_sentence(
    nights: str, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main([*arguments, "--store", nights]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(("option", "start"), [("--html", "<!DOCTYPE html>"), ("--out", "From run")])
def test_a_diff_is_written_to_a_file(
    changed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, start: str
) -> None:
    path = tmp_path / "diff"
    assert main(["diff", BEFORE, AFTER, "--store", changed, option, str(path)]) == 0
    assert path.read_text().startswith(start)
    assert capsys.readouterr().out == ""
    assert [item.name for item in tmp_path.iterdir()] == ["diff"]


@pytest.mark.parametrize(
    ("form", "start"),
    [("terminal", "Run "), ("markdown", "## Run"), ("json", "{"), ("html", "<!DOCTYPE"), ("junit", "<?xml")],
)
def test_a_report_is_written_to_a_file_in_every_form(
    nights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, start: str
) -> None:
    path = tmp_path / "report"
    assert main(["report", "previous", "--store", nights, "--format", form, "--out", str(path)]) == 0
    assert path.read_text().startswith(start)
    assert COMPLETE_RUN in path.read_text()
    assert capsys.readouterr().out == ""
