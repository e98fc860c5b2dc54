"""What workers print and say: too much of it, and what no text should hold."""

from __future__ import annotations

import math
import re
import threading
from pathlib import Path

import psutil

import results
from harness.output import HEAD_BYTES, REST_BYTES, TAIL_BYTES
from results.events import MAX_TEXT
from results.plan import OUTPUT_DIR
from results.vocabulary import Fate
from tests.faults.conftest import MakeRun
from tests.faults.jobs import MIB, OUTPUT_BYTES
from tests.faults.runs import PREFIX, RUN, SmallRun, account_for, message_of


def test_output_without_end_takes_bounded_room_in_files_and_in_memory(make_run: MakeRun) -> None:
    run = make_run("a_passes", "writes_much", "z_passes")
    with Watch() as watch:
        run.supervise()
    account_for(run, {}, [])
    files = {path.name: path.stat().st_size for path in (run.folder / OUTPUT_DIR).iterdir()}
    assert files.keys() == {"worker-00000.log", "worker-00000.rest.gz"}
    assert files["worker-00000.log"] < HEAD_BYTES + 2 * TAIL_BYTES + 1000
    assert REST_BYTES < files["worker-00000.rest.gz"] < REST_BYTES + MIB
    between, dropped = told(run.folder / OUTPUT_DIR / "worker-00000.log")
    assert OUTPUT_BYTES - HEAD_BYTES - 2 * TAIL_BYTES <= between <= OUTPUT_BYTES - HEAD_BYTES - TAIL_BYTES
    assert between - REST_BYTES - MIB < dropped < between - REST_BYTES + MIB
    assert watch.grown < OUTPUT_BYTES / 16, f"{watch.grown / MIB:.0f} MiB more"


def told(log: Path) -> tuple[int, int]:
    """What a text file of output says was left out of it: bytes in all, and bytes that nobody kept."""
    found = re.search(
        rb"\n\[\.\.\. (\d+) bytes in .*, of which the last (\d+) were dropped \.\.\.\]\n", log.read_bytes()
    )
    assert found, "nothing is said"
    return int(found[1]), int(found[2])


class Watch:
    """Looks at how much memory this process takes while it is entered."""

    def __enter__(self) -> Watch:
        self._before = self._most = psutil.Process().memory_info().rss
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.01):
            self._most = max(self._most, psutil.Process().memory_info().rss)

    @property
    def grown(self) -> int:
        """Bytes more than at the beginning, at most."""
        return self._most - self._before


def test_bytes_that_are_no_text_are_kept_as_they_are_and_shown_as_text(make_run: MakeRun) -> None:
    run = make_run("a_passes", "prints_bytes", "z_passes")
    run.supervise()
    account_for(run, {"prints_bytes": "crashed"}, [(Fate.EXITED, "prints_bytes")])
    (printed,) = [path.read_bytes() for path in (run.folder / OUTPUT_DIR).iterdir()]
    assert printed.startswith(b"\xff\xfe\x80 not text \x1b[2J\x00\n\x1f\x8b")
    (row,) = rows(run, "prints_bytes")
    assert "not text [2J" in row["traceback"]
    assert "\x1b" not in row["traceback"]
    assert "\x00" not in row["traceback"]


def test_numbers_that_are_none_come_back_as_themselves(make_run: MakeRun) -> None:
    run = make_run("a_passes", "has_no_numbers", "z_passes")
    run.supervise()
    account_for(run, {}, [])
    with results.open(run.store) as store:
        (row,) = store.query_rows(
            "SELECT metrics FROM stage_results WHERE run = ? AND case_id = ?",
            [RUN, PREFIX + "has_no_numbers"],
        )
    found = dict(row["metrics"])
    assert math.isnan(found.pop("nan"))
    assert found == {"up": math.inf, "down": -math.inf, "tiny": 5e-324}


def test_a_message_of_10_mb_is_kept_bounded_with_both_its_ends(make_run: MakeRun) -> None:
    run = make_run("a_passes", "has_a_long_message", "z_passes")
    run.supervise()
    account_for(run, {"has_a_long_message": "failed_exception"}, [])
    message = message_of(run, "has_a_long_message")
    assert len(message) <= MAX_TEXT
    assert message.startswith("xxx")
    assert message.endswith("xxx")
    assert "characters left out" in message
    assert sum(log.stat().st_size for log in (run.folder / "events").iterdir()) < 4 * MAX_TEXT


def test_a_hostile_message_is_stored_and_its_neighbours_with_it(make_run: MakeRun) -> None:
    run = make_run("a_passes", "has_a_hostile_message", "z_passes")
    run.supervise()
    account_for(run, {"has_a_hostile_message": "failed_exception"}, [])
    message = message_of(run, "has_a_hostile_message")
    assert r"\ud800lone \udfff" in message, "lone surrogates, which UTF-8 cannot say, become escapes"
    assert message.endswith(" fin")


def rows(run: SmallRun, name: str) -> list[dict[str, object]]:
    """What the store has of a case's attempts."""
    with results.open(run.store) as store:
        return store.query_rows(
            "SELECT * FROM stage_results WHERE run = ? AND case_id = ?", [RUN, PREFIX + name]
        )
