"""The pages read views, a stretch at a time, and cannot write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

import results
from dashboard import data, shell
from dashboard.where import Where
from results import Store, StoreError
from results.diff import MACROS
from results.ingest import ingest
from results.layout import STORE_VARIABLE, run_path
from results.views import VIEWS
from tests.dashboard.conftest import OpenPage
from tests.dashboard.test_pages import ALL_PAGES
from tests.results import hurt
from tests.results.factory import INCOMPLETE_RUN, make_run, make_store
from tests.results.hurt import make_hurt_store

FEW_ROWS = {
    "v_run_heads",
    "v_runs",
    "v_completeness",
    "v_skip_balance",
    "v_funnel",
    "v_device_share",
    "v_op_routes",
    "v_verdicts",
    "v_outcomes",
    "diff_classes",
    "duckdb_functions",
}
"""Views with a handful of rows a run, however large the run."""

HURT_PAGES = {
    shell.OVERVIEW: {},
    shell.RUN_PAGE: {},
    shell.TEST: {"case": hurt.FLAKY.id},
    shell.MODEL: {"model": "acme/wobbly"},
}


def test_every_query_of_every_page_reads_views_only(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_hurt_store(make_store(tmp_path))  # a new path, so that no answer comes from a cache
    asked: list[str] = []
    for name in ("query", "query_rows"):
        _record(monkeypatch, name, asked)
    for page, query in ALL_PAGES.items():
        open_page(store, page, run=INCOMPLETE_RUN, **query)
    for page, query in HURT_PAGES.items():
        open_page(store, page, run=hurt.RUN, **query)
    assert len(asked) > 30
    for sql in asked:
        read = set(re.findall(r"(?:FROM|JOIN)\s+(\w+)", sql))
        assert read, sql
        assert read <= {*VIEWS, *MACROS, "duckdb_functions"}, sql
        assert read <= FEW_ROWS or "LIMIT" in sql or "count(*)" in sql, f"not bounded: {sql}"


def _record(monkeypatch: pytest.MonkeyPatch, name: str, asked: list[str]) -> None:
    real = getattr(Store, name)

    def recorded(self: Store, sql: str, params: Any = ()) -> Any:
        asked.append(sql)
        return real(self, sql, params)

    monkeypatch.setattr(Store, name, recorded)


def test_the_store_refuses_to_be_written(nights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORE_VARIABLE, str(nights))
    for sql in ("DELETE FROM planned", "CREATE TABLE t (i INT)", "DROP VIEW v_cases"):
        with pytest.raises(StoreError, match="read-only"):
            data.store().query(sql)


def test_a_download_holds_all_rows_of_a_page_and_joins_lists(
    nights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORE_VARIABLE, str(nights))
    sql = "SELECT op, dtypes, executed FROM v_gaps WHERE run = ?"
    run = results.open(nights).latest_run()
    lines = data.csv(sql, [run], order="op").decode().splitlines()
    assert lines[0] == "op,dtypes,executed"
    assert len(lines) == 1 + data.number("SELECT count(*) FROM v_gaps WHERE run = ?", run)
    assert any("float32" in line and "; " in line for line in lines)


def test_answers_follow_the_store_when_it_is_swapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORE_VARIABLE, str(make_store(tmp_path, incomplete=False)))
    before, runs = data.version(), data.number("SELECT count(*) FROM v_runs")
    ingest(tmp_path, make_run(run_path(tmp_path, INCOMPLETE_RUN), INCOMPLETE_RUN))
    assert data.version() != before
    assert data.number("SELECT count(*) FROM v_runs") == runs + 1


def test_what_is_typed_stays_a_parameter() -> None:
    where = Where("run = ?", "night")
    assert not where.narrowed
    where.containing("50% a_b'", "name")
    where.among("task", [])
    where.among("task", ["x' OR 1=1"])
    assert where.narrowed
    assert where.params == ["night", "50%", "a_b'", ["x' OR 1=1"]]
    found = duckdb.execute(
        "SELECT count(*) FROM (SELECT 'night' AS run, 'A_B'' 50%' AS name, 'x'' OR 1=1' AS task) "
        f"WHERE {where.sql}",
        where.params,
    ).fetchall()
    assert found == [(1,)]
