"""The ledger: every skip has one category, both sums add up, and what is unknown comes first."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import duckdb
import pytest

import results
from results import schema
from results.report import render_report
from results.scoreboard import scoreboard
from results.skips import read_balance, render_skips
from results.tables import Format
from tests.results.factory import COMPLETE_RUN
from tests.results.ledgers import MYSTERY, NEWER, RUN, make_ledger


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> results.Store:
    return results.open(make_ledger(tmp_path_factory.mktemp("ledger")))


def test_each_skip_has_one_source_and_one_category(ledger: results.Store) -> None:
    rows = ledger.rows("v_skips", run=RUN)
    assert [(row["source"], row["category"], row["suite"], row["cases"]) for row in rows] == [
        ("uncategorised", "uncategorised", "pytest", 2),
        ("deliberate", "sparse", "pytest", 1),
        ("eligibility", "device_gate", "pytest", 3),
        ("eligibility", "body", "pytest", 1),
        ("eligibility", "dtype", "opinfo", 1),
    ]
    gate = rows[2]
    assert gate["example_case"] == "pytest::test_a.py::TestA::test_gate_0"
    assert gate["example_reason"].startswith("Only runs on")
    assert (gate["reasons"], gate["meaning"]) == (1, "Upstream runs it on other devices only.")
    assert rows[1]["example_reason"] == "no sparse kernels"


def test_an_unknown_category_of_a_log_is_not_taken_on_trust(ledger: results.Store) -> None:
    (row,) = ledger.rows("v_skipped", case_id=NEWER)
    assert row["category"] == "uncategorised"


def test_the_sums_add_up(ledger: results.Store) -> None:
    balance = read_balance(ledger, RUN)
    assert (balance.planned, balance.outcomes, balance.skips, balance.not_generated) == (10, 10, 8, 1)
    assert (balance.eligibility, balance.deliberate, balance.uncategorised) == (5, 1, 2)
    assert balance.balanced
    assert len(ledger.rows("v_skipped", run=RUN)) == balance.skips


def test_a_ledger_that_misses_a_skip_does_not_balance(tmp_path: Path) -> None:
    """The two sides are counted apart: a result whose category got lost is seen."""
    make_ledger(tmp_path)
    with duckdb.connect(str(results.layout.database_path(tmp_path))) as connection:
        connection.execute("UPDATE stage_results SET category = '' WHERE case_id = ?", [MYSTERY])
    with results.open(tmp_path) as store:
        balance = read_balance(store, RUN)
    assert not balance.balanced
    assert str(balance).startswith("DOES NOT ADD UP")


def test_each_form_says_what_is_uncategorised_first(ledger: results.Store) -> None:
    table = render_skips(ledger, RUN, Format.TABLE, width=200).splitlines()
    assert table[0] == "UNCATEGORISED: 2 skips have no known reason; `harness skips` lists them first"
    assert "8 skips of 10 planned cases = 5 eligibility + 1 deliberate + 2 uncategorised" in table[1]
    assert render_skips(ledger, RUN, Format.MD).startswith("UNCATEGORISED")
    body = json.loads(render_skips(ledger, RUN, Format.JSON))
    assert body["balance"]["uncategorised"] == 2
    assert body["skips"][0]["category"] == "uncategorised"
    rows = list(csv.DictReader(io.StringIO(render_skips(ledger, RUN, Format.CSV))))
    assert [row["category"] for row in rows] == ["uncategorised", "sparse", "device_gate", "body", "dtype"]


def test_a_report_says_first_that_skips_are_not_explained(
    ledger: results.Store, store: results.Store
) -> None:
    for form in (Format.TABLE, Format.MD):
        said = render_report(scoreboard(ledger, RUN), form).splitlines()
        assert any("UNCATEGORISED: 2 skips" in line for line in said[:4]), said[:4]
        assert "UNCATEGORISED" not in render_report(scoreboard(store, COMPLETE_RUN), form)
    assert json.loads(render_report(scoreboard(ledger, RUN), Format.JSON))["warnings"]


def test_skips_that_were_stored_before_there_was_a_ledger_are_uncategorised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = duckdb.connect()
    with monkeypatch.context() as older:
        older.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:2])
        older.setattr(schema, "VERSION", 2)
        older.setattr(schema, "_VIEW_SCRIPTS", ())
        schema.migrate(connection)
    for case, outcome in (("a", "skipped_upstream"), ("b", "passed")):
        row = ["r", "l", 0, case, 1, "test", outcome]
        connection.execute(
            "INSERT INTO stage_results VALUES (?, ?, ?, now()::TIMESTAMP, ?, ?, ?, ?, 0, '', '', '', '', "
            "MAP {}, MAP {})",
            row,
        )
    schema.migrate(connection)
    found = connection.execute("SELECT case_id, category FROM stage_results ORDER BY case_id").fetchall()
    assert found == [("a", "uncategorised"), ("b", "")]
