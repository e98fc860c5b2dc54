"""What is kept of a worker's output."""

from __future__ import annotations

import gzip
import multiprocessing
import os
from pathlib import Path

import pytest

from harness import output
from harness.output import Output, printable


def capture(path: Path, *chunks: bytes) -> Output:
    reader, writer = multiprocessing.Pipe(duplex=False)
    taken = Output(reader, path)
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            view = view[os.write(writer.fileno(), view) :]
    writer.close()
    taken.close()
    return taken


def test_little_output_is_kept_as_it_is(tmp_path: Path) -> None:
    taken = capture(tmp_path / "w.log", b"one\n", b"two\n")
    assert (tmp_path / "w.log").read_bytes() == b"one\ntwo\n"
    assert taken.last_words() == "one\ntwo"
    assert not list(tmp_path.glob("*.gz"))


def test_nothing_printed_leaves_no_file(tmp_path: Path) -> None:
    capture(tmp_path / "w.log")
    assert not list(tmp_path.iterdir())


def test_much_output_keeps_head_and_tail_and_compresses_the_rest(tmp_path: Path) -> None:
    lines = [f"{number:07}\n".encode() * 100 for number in range(10_000)]
    everything = b"".join(lines)
    taken = capture(tmp_path / "w.log", *lines)
    text = (tmp_path / "w.log").read_bytes()
    head, _, tail = text.partition(b"\n[... ")
    note, _, tail = tail.partition(b" ...]\n")
    rest = gzip.decompress((tmp_path / "w.rest.gz").read_bytes())
    assert head + rest + tail == everything
    assert note == f"{len(rest)} bytes in w.rest.gz".encode()
    assert len(text) < 4 * (output.HEAD_BYTES + output.TAIL_BYTES)
    assert taken.last_words().endswith("0009999")


def test_the_rest_is_bounded_and_what_is_dropped_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "REST_BYTES", 10_000)
    noise = os.urandom(50_000_000)
    capture(tmp_path / "w.log", noise)
    assert (tmp_path / "w.rest.gz").stat().st_size < 1_000_000
    assert b"were dropped" in (tmp_path / "w.log").read_bytes()


def test_control_characters_do_not_reach_a_page() -> None:
    assert printable("a\x1b[31mb\x00\x7f\tc\nd") == "a[31mb\tc\nd"


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_is_printed_after_the_end_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_JOIN_SECONDS", 0.1)
    reader, writer = multiprocessing.Pipe(duplex=False)
    taken = Output(reader, tmp_path / "w.log")
    chunk = b"x" * 1000
    many = (output.HEAD_BYTES + output.TAIL_BYTES) // len(chunk) + 100
    for _ in range(many):
        os.write(writer.fileno(), chunk)
    taken.close()  # somebody still holds the writing end
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for _ in range(many):
        os.write(writer.fileno(), chunk)
    writer.close()
    taken.close()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
