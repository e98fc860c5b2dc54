"""``harness db check`` is silent about a whole store and finds each way of it being hurt."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from harness.cli import main
from harness.lock import sole_supervisor
from results import schema
from results.check import check
from results.findings import Weight
from results.ingest import ingest
from results.layout import PRIVATE_DATABASE, database_path, run_path
from results.logs import pack
from results.plan import EVENTS_DIR, OUTPUT_DIR, PLAN_FILE
from results.writer import writing
from tests.results.factory import COMPLETE_RUN, INCOMPLETE_RUN, make_run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with both runs of the factory, and the output of the worker that died."""
    store = tmp_path_factory.mktemp("whole")
    ingest(store, make_run(run_path(store, COMPLETE_RUN)))
    ingest(store, make_run(run_path(store, INCOMPLETE_RUN), INCOMPLETE_RUN, missing=3))
    for run in (COMPLETE_RUN, INCOMPLETE_RUN):
        (run_path(store, run) / OUTPUT_DIR).mkdir()
        (run_path(store, run) / OUTPUT_DIR / "w1.log").write_text("Segmentation fault")
    return store


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A copy of it to be hurt."""
    return Path(shutil.copytree(whole, tmp_path / "store"))


def _log(store: Path, name: str = "w0", run: str = COMPLETE_RUN) -> Path:
    return run_path(store, run) / EVENTS_DIR / f"{name}.jsonl"


def _sql(store: Path, *statements: str) -> None:
    with writing(store) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_whole_store_has_nothing_wrong(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(store) == []
    assert main(["db", "check", "--store", str(store)]) == 0
    assert capsys.readouterr().out == f"{store}: nothing is wrong\n"


def test_packed_logs_are_as_good(store: Path) -> None:
    pack(_log(store))
    assert check(store) == []


def _cut(store: Path) -> None:
    path = _log(store)
    path.write_bytes(path.read_bytes()[:-3000])


def _grow(store: Path) -> None:
    lines = _log(store).read_bytes().splitlines(keepends=True)
    with _log(store).open("ab") as log:
        log.write(lines[-1])


def _break_packed(store: Path) -> None:
    packed = pack(_log(store))
    packed.write_bytes(packed.read_bytes()[:-50])


def _smudge(store: Path) -> None:
    """Other bytes in the middle of every block that holds data."""
    with database_path(store).open("r+b") as file:
        size = file.seek(0, 2)
        for place in range(20_000, size, 40_000):
            file.seek(place)
            file.write(b"\xa5" * 64)


HURTS: dict[str, tuple[Callable[[Path], object], str, str, str]] = {
    "a log is gone": (lambda s: _log(s).unlink(), COMPLETE_RUN, "missing log", "a rebuild would lose"),
    "a log was cut": (_cut, COMPLETE_RUN, "changed log", "w0.jsonl is not the log that was ingested"),
    "a log went on": (_grow, COMPLETE_RUN, "not ingested", "w0.jsonl went on after it was ingested"),
    "a log is new": (
        lambda s: shutil.copy(_log(s), _log(s, "w9")),
        COMPLETE_RUN,
        "not ingested",
        "w9.jsonl were never ingested",
    ),
    "a packed log is damaged": (_break_packed, COMPLETE_RUN, "damaged log", "w0.jsonl.gz is damaged"),
    "a run was never ingested": (
        lambda s: make_run(run_path(s, "later"), "later"),
        "later",
        "not ingested",
        "4 event logs, and was never ingested",
    ),
    "a run's folder is gone": (
        lambda s: shutil.rmtree(run_path(s, COMPLETE_RUN)),
        COMPLETE_RUN,
        "missing run",
        "a rebuild would lose the run",
    ),
    "a plan is gone": (
        lambda s: (run_path(s, COMPLETE_RUN) / PLAN_FILE).unlink(),
        COMPLETE_RUN,
        "missing plan",
        "has no plan.json",
    ),
    "a plan is damaged": (
        lambda s: (run_path(s, COMPLETE_RUN) / PLAN_FILE).write_text("{"),
        COMPLETE_RUN,
        "damaged plan",
        "is damaged",
    ),
    "rows are missing from the plan": (
        lambda s: _sql(s, f"DELETE FROM planned WHERE run = '{COMPLETE_RUN}' AND op = 'op07'"),
        COMPLETE_RUN,
        "sum",
        "208 cases were planned, and 204 with an outcome and 0 not run are 204",
    ),
    "results of a case that nobody planned": (
        lambda s: _sql(s, "UPDATE op_calls SET case_id = 'x' WHERE run LIKE '%03%' AND called LIKE '%op01'"),
        COMPLETE_RUN,
        "foreign id",
        "4 rows of op_calls name what is not a planned case, such as 'x'",
    ),
    "a signature is unknown": (
        lambda s: _sql(s, "DELETE FROM signatures"),
        COMPLETE_RUN,
        "foreign id",
        "is not a known signature",
    ),
    "a result is there twice": (
        lambda s: _sql(
            s, "INSERT INTO stage_results FROM stage_results WHERE run LIKE '%03%' AND case_id LIKE '%op01%'"
        ),
        COMPLETE_RUN,
        "repeated row",
        "4 rows of stage_results are there more than once",
    ),
    "the database is damaged": (_smudge, "", "damaged database", "coverage.duckdb is damaged"),
    "the database is no database": (
        lambda s: database_path(s).write_text("hello"),
        "",
        "damaged database",
        "coverage.duckdb is damaged",
    ),
    "the database is gone": (lambda s: database_path(s).unlink(), "", "missing database", "is missing"),
    "an older schema": (
        lambda s: _sql(s, f"DELETE FROM schema_version WHERE version = {schema.VERSION}"),
        "",
        "schema",
        "run `harness ingest` to migrate it",
    ),
    "a newer schema": (
        lambda s: _sql(s, "INSERT INTO schema_version VALUES (99, now()::TIMESTAMP)"),
        "",
        "schema",
        "upgrade the harness",
    ),
}


@pytest.mark.parametrize("hurt", HURTS)
def test_each_hurt_is_found(store: Path, hurt: str, capsys: pytest.CaptureFixture[str]) -> None:
    do, run, what, sentence = HURTS[hurt]
    do(store)
    found = check(store)
    errors = [one for one in found if one.weight is Weight.ERROR]
    assert any(one.what == what and one.run == run and sentence in one.sentence for one in errors), found
    assert main(["db", "check", "--json", "--store", str(store)]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [row["found"] for row in rows] == [one.sentence for one in found]


def test_what_a_death_left_is_a_note(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with _log(store).open("ab") as log:
        log.write(b'{"v":1,"seq":9')
    shutil.copy(_log(store, "w1"), _log(store, "w1").with_name("w1.jsonl.part"))
    (store / PRIVATE_DATABASE).write_bytes(b"")
    (run_path(store, COMPLETE_RUN) / OUTPUT_DIR / "w1.log").unlink()
    kinds = sorted(one.what for one in check(store) if one.weight is Weight.NOTE)
    assert kinds == ["left over", "left over", "missing output", "torn log"]
    assert main(["db", "check", "--store", str(store)]) == 0
    assert "a death cut it short" in " ".join(capsys.readouterr().out.split())


def test_a_run_at_work_is_not_looked_at(store: Path) -> None:
    _grow(store)
    with sole_supervisor(run_path(store, COMPLETE_RUN)):
        assert check(store) == []
    assert check(store)


def test_no_store_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db", "check", "--store", str(tmp_path / "none")]) == 2
    assert "there is no store at" in capsys.readouterr().err


def test_a_check_changes_nothing(store: Path) -> None:
    before = {path: path.stat() for path in store.rglob("*")}
    check(store)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == {
        path: stat.st_mtime_ns for path, stat in before.items()
    }
    duckdb.connect(str(database_path(store)), read_only=True).close()
