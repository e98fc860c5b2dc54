"""The disk is full, read-only, or not where it should be: one clear sentence, and the run can go on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import results
from results.vocabulary import Fate
from tests.faults.conftest import MakeRun
from tests.faults.jobs import BALLAST
from tests.faults.runs import PREFIX, RUN, SmallRun, account_for, finish

DISK = "24m"


def mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mount("-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)):
        pytest.skip("mounting a small disk takes a superuser; the limit of file sizes is tested instead")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def only_death(run: SmallRun, *possible: Fate) -> tuple[Fate, str]:
    """The one worker that died. Whether its own end could still be written is a matter of bytes; resume
    writes it otherwise."""
    with results.open(run.store) as store:
        (row,) = store.rows("v_workers", run=RUN, death=True)
    assert row["fate"] in possible
    return Fate(row["fate"]), str(row["case_id"] or "").removeprefix(PREFIX)


def test_a_full_disk_stops_a_run_in_one_sentence_and_with_room_it_goes_on(disk: Path) -> None:
    run = SmallRun(disk / "store", "a_passes", "fills_the_disk", "z_passes")
    code, output = finish(run.command())
    assert code == 4, output
    assert "Traceback" not in output
    assert "No space left on device" in output
    assert f"`harness resume {RUN}`" in output
    (run.folder / BALLAST).unlink()
    code, output = finish(run.command())
    assert code == 0, output
    account_for(run, {}, [only_death(run, Fate.DISK_FULL, Fate.INTERRUPTED)])


def test_files_that_may_not_grow_stop_a_run_too(make_run: MakeRun) -> None:
    names = [f"passes[{i:03}]" for i in range(40)]
    run = make_run(*names)
    code, output = finish(run.command(file_bytes=6000))
    assert code == 4, output
    assert "Traceback" not in output
    assert "File too large" in output
    assert f"`harness resume {RUN}`" in output
    code, output = finish(run.command())
    assert code == 0, output
    account_for(run, {}, [only_death(run, Fate.DISK_FULL)])


def test_a_read_only_store_is_one_sentence(disk: Path) -> None:
    run = SmallRun(disk / "store", "a_passes", "z_passes")
    run.plan.save(run.folder)
    assert mount("-o", "remount,ro", str(disk))
    code, output = finish(run.command())
    assert code == 4, output
    assert "Read-only file system" in output
    assert "Traceback" not in output
    assert mount("-o", "remount,rw", str(disk))
    code, output = finish(run.command())
    assert code == 0, output
    account_for(run, {}, [])


def test_a_file_in_place_of_a_folder_is_one_sentence(make_run: MakeRun) -> None:
    run = make_run("a_passes", "z_passes")
    run.plan.save(run.folder)
    (run.folder / "events").touch()
    code, output = finish(run.command())
    assert code == 4, output
    assert str(run.folder / "events") in output
    assert "Traceback" not in output
    (run.folder / "events").unlink()
    code, output = finish(run.command())
    assert code == 0, output
    account_for(run, {}, [])
