"""The schema is versioned, and what is derived from it agrees with its source."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import results
from results import schema
from results.batch import TABLES
from results.layout import database_path
from results.views import VIEWS
from results.writer import writing
from tests.results.factory import make_store


def test_migrating_twice_is_migrating_once() -> None:
    connection = duckdb.connect()
    schema.migrate(connection)
    schema.migrate(connection)
    assert schema.version(connection) == schema.VERSION
    assert schema.first_row(connection, "SELECT count(*) FROM schema_version") == (schema.VERSION,)


def test_each_migration_leads_from_the_version_before(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = {"two.sql": "ALTER TABLE runs ADD COLUMN colour VARCHAR DEFAULT 'red'"}
    real = schema._script
    monkeypatch.setattr(schema, "_script", lambda name: scripts[name] if name in scripts else real(name))
    connection = duckdb.connect()
    schema.migrate(connection)
    connection.execute("INSERT INTO runs VALUES ('r', 'd', 'p', 'h', 0, '{}')")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "two.sql"))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with pytest.raises(schema.SchemaError, match="run `harness ingest` to migrate"):
        schema.check_readable(connection)
    schema.migrate(connection)
    schema.check_readable(connection)
    assert schema.first_row(connection, "SELECT run, colour FROM runs") == ("r", "red")


@pytest.mark.parametrize("earlier", range(1, schema.VERSION))
def test_a_store_of_every_earlier_version_is_migrated(earlier: int, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = duckdb.connect()
    with monkeypatch.context() as then:
        then.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:earlier])
        then.setattr(schema, "VERSION", earlier)
        then.setattr(schema, "_VIEW_SCRIPTS", ())  # they are made anew, and are those of the present
        schema.migrate(connection)
    connection.execute(
        "INSERT INTO stage_results (run, log, seq, time, case_id, attempt, stage, outcome, seconds, "
        "exception, message, traceback, signature, metrics, facts) VALUES ('r', 'l', 0, now()::TIMESTAMP, "
        "'c', 1, 'load', 'passed', 1, '', '', '', '', MAP {}, MAP {})"
    )
    schema.migrate(connection)
    schema.check_readable(connection)
    found = schema.first_row(connection, "SELECT outcome, evidence, evidence_from FROM stage_results")
    assert found == ("passed", "ran", "")
    columns = [row[0] for row in connection.execute("DESCRIBE stage_results").fetchall()]
    assert columns == list(TABLES["stage_results"])


def test_a_store_of_a_newer_harness_is_refused_by_reader_and_writer(tmp_path: Path) -> None:
    make_store(tmp_path, incomplete=False)
    with duckdb.connect(str(database_path(tmp_path))) as connection:
        connection.execute("INSERT INTO schema_version VALUES (99, now()::TIMESTAMP)")
    with pytest.raises(results.StoreError, match=r"schema 99 .*upgrade the harness"):
        results.open(tmp_path)
    with pytest.raises(results.StoreError, match=r"schema 99 .*upgrade the harness"), writing(tmp_path):
        pass


def test_a_database_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with duckdb.connect(str(database_path(tmp_path))) as connection:
        connection.execute("CREATE TABLE accounts (id INTEGER)")
    with pytest.raises(results.StoreError, match="not a store of this harness"), writing(tmp_path):
        pass


def test_a_store_that_lacks_a_view_of_this_harness_says_how_to_get_it(tmp_path: Path) -> None:
    make_store(tmp_path, incomplete=False)
    with duckdb.connect(str(database_path(tmp_path))) as connection:
        connection.execute("DROP VIEW v_gaps")
    with results.open(tmp_path) as store, pytest.raises(results.StoreError, match="has no v_gaps"):
        store.view("v_gaps")


def test_the_list_of_views_is_the_one_in_the_database(store: results.Store) -> None:
    found = store.query_rows("SELECT view_name FROM duckdb_views() WHERE database_name = 'store'")
    assert {row["view_name"] for row in found if row["view_name"].startswith("v_")} == {*VIEWS, "v_attempts"}


@pytest.mark.parametrize("table", TABLES)
def test_events_fill_exactly_the_columns_of_their_table(store: results.Store, table: str) -> None:
    columns = [row["column_name"] for row in store.query_rows(f"DESCRIBE {table}")]
    assert columns == list(TABLES[table])


def test_a_store_opens_with_plain_duckdb(store_path: Path) -> None:
    with duckdb.connect(str(database_path(store_path)), read_only=True) as connection:
        assert schema.first_row(connection, "SELECT count(*) FROM v_models") == (16,)
