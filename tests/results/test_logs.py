"""A compressed log is the log it was: read, followed, resumed, ingested and adopted all the same."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.batch import ContradictionError
from results.events import Entered, EventLog, EventLogError, read_log
from results.ingest import ingest, rebuild
from results.layout import run_path
from results.logs import PACKED, content, find_log, last_lines, left_over, log_files, pack, unpack
from results.plan import EVENTS_DIR
from results.store import Store
from results.vocabulary import Stage
from tests.results.factory import COMPLETE_RUN, make_run


def _events(store: Path) -> Path:
    return run_path(store, COMPLETE_RUN) / EVENTS_DIR


def _pack_all(events: Path) -> None:
    for path in log_files(events).values():
        if path.suffix != PACKED:
            pack(path)


@given(st.binary(max_size=3000), st.integers(0, 3000))
def test_packing_and_unpacking_gives_back_every_byte(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, upto: int
) -> None:
    log = tmp_path_factory.mktemp("log") / "w.jsonl"
    log.write_bytes(data)
    plain, plain_part = content(log), content(log, upto)
    packed = pack(log)
    assert not log.exists()
    assert (content(packed), content(packed, upto)) == (plain, plain_part)
    assert plain.whole == data.rfind(b"\n") + 1
    unpack(log)
    assert log.read_bytes() == data
    assert not packed.exists()


def test_names_do_not_depend_on_the_form_and_the_plain_one_counts(tmp_path: Path) -> None:
    events = make_run(tmp_path / "run") / EVENTS_DIR
    names = list(log_files(events))
    packed = pack(events / "w0.jsonl")
    assert list(log_files(events)) == names
    assert log_files(events)["w0.jsonl"] == packed == find_log(events / "w0.jsonl")
    (events / "w0.jsonl").write_bytes(b"newer")
    assert log_files(events)["w0.jsonl"] == events / "w0.jsonl" == find_log(events / "w0.jsonl")
    assert left_over(events) == [packed]


def test_a_packed_log_reads_and_goes_on_as_before(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    with EventLog(path) as log:
        log.write(Entered(case="a", attempt=1, stage=Stage.TEST))
    before, lines = list(read_log(path)), last_lines(path)
    packed = pack(path)
    assert list(read_log(packed)) == before
    assert last_lines(path) == lines
    with EventLog(path) as log:
        log.write(Entered(case="b", attempt=1, stage=Stage.TEST))
    assert [record.seq for record in read_log(path)] == [0, 1]
    assert not packed.exists()


@pytest.mark.parametrize("cut", [3, 40])
def test_a_damaged_packed_log_is_refused_with_a_sentence(tmp_path: Path, cut: int) -> None:
    events = make_run(tmp_path / "run") / EVENTS_DIR
    packed = pack(events / "w0.jsonl")
    packed.write_bytes(packed.read_bytes()[:-cut])
    with pytest.raises(EventLogError, match=r"w0\.jsonl\.gz is damaged: .*; put it back from a copy"):
        list(read_log(packed))
    with pytest.raises(ContradictionError, match=r"w0\.jsonl\.gz is damaged"):
        ingest(tmp_path / "elsewhere", tmp_path / "run")
    own = run_path(tmp_path / "store", COMPLETE_RUN)
    shutil.copytree(tmp_path / "run", own)
    with pytest.raises(ContradictionError, match=r"w0\.jsonl was refused: .* is damaged"):
        ingest(tmp_path / "store", own)


def test_packed_logs_ingest_and_rebuild_to_the_same(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(store, make_run(run_path(store, COMPLETE_RUN)))
    with Store(store) as reader:
        before = reader.rows("v_stages")
    _pack_all(_events(store))
    assert ingest(store, run_path(store, COMPLETE_RUN)).records == 0
    rebuild(store)
    with Store(store) as reader:
        assert str(reader.rows("v_stages")) == str(before)


def test_a_run_from_a_compacted_store_is_adopted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    _pack_all(copy / EVENTS_DIR)
    store = tmp_path / "store"
    assert ingest(store, copy).complete
    assert ingest(store, run).records == 0, "the same logs, plain"
    _pack_all(_events(store))
    assert ingest(store, copy).records == 0, "both compressed"


def test_a_longer_log_goes_on_where_the_packed_one_ended_and_another_one_is_refused(tmp_path: Path) -> None:
    run, store = make_run(tmp_path / "run"), tmp_path / "store"
    log = run / EVENTS_DIR / "w0.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    ingest(store, run)
    _pack_all(_events(store))
    log.write_bytes(whole)
    assert ingest(store, run).complete
    _pack_all(_events(store))
    with gzip.open(_events(store) / "w0.jsonl.gz") as packed:
        assert packed.read() == whole
    log.write_bytes(whole.replace(b"op01", b"op02"))
    with pytest.raises(ContradictionError, match="is not a continuation of"):
        ingest(store, run)
