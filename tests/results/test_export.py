"""An export is read by plain DuckDB and pandas and holds what the store holds."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

from harness.cli import main
from results import export as exporting
from results import schema
from results.export import export
from results.layout import StoreError
from results.store import Store
from results.views import VIEWS
from tests.results.factory import COMPLETE_RUN, INCOMPLETE_RUN, Expected


@pytest.fixture(scope="module")
def exported(store_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole store of the factory as Parquet."""
    target = tmp_path_factory.mktemp("there") / "year"
    with Store(store_path) as store:
        export(store, target)
    return target


def _tables(store: Store) -> list[str]:
    sql = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'store'"
    return [row["table_name"] for row in store.query_rows(sql)]


def test_every_table_and_view_is_a_file_with_as_many_rows(exported: Path, store: Store) -> None:
    names = {*_tables(store), *VIEWS}
    assert {"runs", "planned", "stage_results", "op_calls", "signatures", "v_cases"} <= names
    assert {path.name for path in exported.iterdir()} == {f"{name}.parquet" for name in names}
    for name in names:
        (rows,) = duckdb.sql(f"SELECT count(*) FROM '{exported}/{name}.parquet'").fetchall()[0]
        assert rows == store.query_rows(f"SELECT count(*) AS n FROM {name}")[0]["n"], name


def test_what_is_read_back_is_what_the_store_says(exported: Path, store: Store) -> None:
    for name in ("planned", "op_calls", "stage_results", "v_cases", "v_stages"):
        file = f"SELECT * FROM '{exported}/{name}.parquet'"
        back = duckdb.sql(f"SELECT bit_xor(hash(COLUMNS(*))) FROM ({file})").fetchall()
        held = store.query_rows(f"SELECT bit_xor(hash(COLUMNS(*))) FROM {name}")
        assert list(back[0]) == list(held[0].values()), name


def test_pandas_reads_it(exported: Path) -> None:
    models = pd.read_parquet(exported / "v_models.parquet")
    assert len(models[models.run == COMPLETE_RUN]) == Expected().models
    assert set(models.run) == {COMPLETE_RUN, INCOMPLETE_RUN}


def test_the_metadata_say_schema_and_meaning(exported: Path) -> None:
    metadata = pq.read_schema(exported / "v_funnel.parquet").metadata
    assert metadata[b"schema_version"] == str(schema.VERSION).encode()
    assert metadata[b"name"] == b"v_funnel"
    assert metadata[b"meaning"] == VIEWS["v_funnel"].meaning.encode()


def test_one_run_alone(store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "it's one"
    arguments = ["--to", str(target), "--run", COMPLETE_RUN, "--store", str(store_path)]
    assert main(["db", "export", *arguments]) == 0
    assert f"{target}: " in capsys.readouterr().out
    for name in ("runs", "planned", "op_calls", "v_cases"):
        assert set(pd.read_parquet(target / f"{name}.parquet").run) == {COMPLETE_RUN}
    with Store(store_path) as store:
        sql = "SELECT count(DISTINCT signature) AS n FROM stage_results WHERE signature <> '' AND run = ?"
        signatures = store.query_rows(sql, [COMPLETE_RUN])[0]["n"]
    assert len(pd.read_parquet(target / "signatures.parquet")) == signatures
    assert pq.read_schema(target / "runs.parquet").metadata[b"run"] == COMPLETE_RUN.encode()


def test_what_cannot_be_exported_says_why(
    store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    (tmp_path / "file").touch()
    for target, more, said in (
        ("full", [], "there is something at"),
        ("file", [], "there is something at"),
        ("new", ["--run", "nope"], "has no run 'nope'"),
    ):
        assert main(["db", "export", "--to", str(tmp_path / target), *more, "--store", str(store_path)]) == 2
        assert said in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full"]


def test_an_export_that_fails_on_the_way_leaves_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, done = exporting._write, []

    def fails_later(*arguments: object) -> int:
        done.append(arguments)
        if len(done) == 5:
            raise StoreError("no room")
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(exporting, "_write", fails_later)
    with pytest.raises(StoreError, match="no room"):
        export(store, tmp_path / "target")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(exporting, "_write", write)
    (tmp_path / ".target.part").mkdir()
    (tmp_path / ".target.part" / "left").touch()
    export(store, tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
