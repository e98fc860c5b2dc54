"""A log that travels in segments arrives as it was, however it is cut, asked for, and disturbed."""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import segments
from harness.errors import InfrastructureError
from harness.segments import Inbox, Outbox, pack, put, unpack
from results.events import EventLog, EventLogError, WorkerStarted, read_lines, read_log


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    if files.exists("/segments"):
        files.rm("/segments", recursive=True)


class Disturbed:
    """A file system whose next writes fail, each either before or after it took effect."""

    def __init__(self, files: Any, failures: list[str]) -> None:
        self._files = files
        self._failures = failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def pipe_file(self, path: str, data: bytes) -> None:
        failure = self._failures.pop(0) if self._failures else ""
        if failure == "before":
            raise ConnectionError("no answer")
        if failure == "torn":
            self._files.pipe_file(path, data[: len(data) // 2])
            raise ConnectionError("half of it")
        self._files.pipe_file(path, data)
        if failure == "after":
            raise ConnectionError("no answer, but it was done")


STEPS = st.lists(st.sampled_from(["log", "tear", "ship", "read", "again"]), max_size=40)
FAILURES = st.lists(st.sampled_from(["", "before", "torn", "after"]), max_size=10)


@given(steps=STEPS, failures=FAILURES)
def test_any_split_and_any_polls_give_the_log_back(steps: list[str], failures: list[str]) -> None:
    files = Disturbed(fsspec.filesystem("memory"), failures)
    root = f"/segments/{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory() as folder:
        there, here = Path(folder, "there.jsonl"), Path(folder, "here.jsonl")
        outbox, inbox = Outbox(files, root, there), Inbox(files, root)
        written, seen = 0, Counter[Inbox]()
        with EventLog(there) as log, EventLog(here) as copy:

            def read(source: Inbox) -> None:
                lines = source.read().decode().splitlines(keepends=True)
                for record in read_lines(lines, "segments", seen[source]):
                    copy.take(record)
                    seen[source] += 1

            for step in [*steps, "log", "finish", "read"]:
                if step == "log":
                    log.write(WorkerStarted(worker="w", pid=written, cases=1))
                    written += 1
                elif step == "tear":
                    with there.open("ab") as file:  # a line that is still being written
                        file.write(b'{"v":1,')
                    outbox.ship()
                    with there.open("r+b") as file:
                        file.truncate(there.stat().st_size - 7)
                elif step == "ship":
                    outbox.ship()
                elif step == "finish":
                    for _ in range(20):
                        outbox.ship()
                elif step == "read":
                    read(inbox)
                else:
                    read(Inbox(files, root))  # from the beginning, as one that forgot what it had
        assert there.read_bytes() == here.read_bytes()
        assert len(list(read_log(here))) == written
        inbox.remove()


@given(st.binary(), st.data())
def test_a_segment_is_whole_or_is_not_there(lines: bytes, data: st.DataObject) -> None:
    segment = pack(lines)
    assert unpack(segment) == lines
    cut = data.draw(st.integers(0, len(segment) - 1))
    assert unpack(segment[:cut]) is None


def test_a_copy_refuses_a_gap_and_passes_over_what_it_has(tmp_path: Path) -> None:
    with EventLog(tmp_path / "a.jsonl") as log:
        for number in range(3):
            log.write(WorkerStarted(worker="w", pid=number, cases=1))
    records = list(read_log(tmp_path / "a.jsonl"))
    with EventLog(tmp_path / "b.jsonl") as copy:
        assert copy.take(records[0])
        assert not copy.take(records[0])
        with pytest.raises(EventLogError, match="expected record 1, found 2"):
            copy.take(records[2])


def test_a_storage_that_refuses_for_too_long_is_said(
    tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "PATIENCE", 0.0)
    (tmp_path / "log").write_text("line\n")
    outbox = Outbox(Disturbed(memory, ["before"] * 9), "/segments/refused", tmp_path / "log")
    assert not outbox.ship()
    with pytest.raises(InfrastructureError, match=r"could not be written to /segments/refused: no answer"):
        outbox.ship()


def test_what_cannot_be_read_is_no_end_of_the_log(memory: Any) -> None:
    memory.pipe_file("/segments/some/000000", pack(b"one\n"))
    inbox = Inbox(memory, "/segments/some")
    assert inbox.read() == b"one\n"
    assert (inbox.count, inbox.trouble) == (1, "")

    class Refusing:
        def cat_file(self, path: str) -> bytes:
            raise PermissionError(f"not allowed to read {path}")

    inbox._files = Refusing()
    assert inbox.read() == b""
    assert "not allowed to read /segments/some/000001" in inbox.trouble


def test_only_what_was_checked_travels(tmp_path: Path, memory: Any) -> None:
    (tmp_path / "log").write_text("right\nwrong\n")
    outbox, inbox = Outbox(memory, "/segments/checked", tmp_path / "log"), Inbox(memory, "/segments/checked")
    for _ in range(2):
        outbox.ship(len("right\n"))
    assert inbox.read() == b"right\n"
    (tmp_path / "log").write_text("right\n")  # cut, as a log that was refused is
    outbox.finish()
    assert inbox.read() == b""


def test_folders_are_made_where_there_are_any(tmp_path: Path) -> None:
    files, path = fsspec.url_to_fs(f"file://{tmp_path}/some/where/000000")
    put(files, path, b"one\n")
    assert (tmp_path / "some" / "where" / "000000").read_bytes() == b"one\n"


def test_a_topmost_folder_that_is_not_there_is_no_place_to_make_one() -> None:
    top = f"/{uuid.uuid4().hex}"
    with pytest.raises(FileNotFoundError, match=top):
        put(fsspec.filesystem("file"), f"{top}/run/000000", b"one\n")
    assert not Path(top).exists()
