"""Several processes at one store: two that write, and one that reads all the while."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

import results
from results.ingest import ingest
from results.plan import PlanError, make_plan
from tests.faults.conftest import MakeRun
from tests.faults.runs import RUN, account_for, finish, quick, wait_until


def test_two_ingests_at_once_both_succeed(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("a_passes", "fails", "z_passes")
    run.supervise()
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(run.folder, elsewhere)
    shutil.rmtree(run.store)
    both = [quick("ingest", str(elsewhere), "--store", str(run.store)) for _ in range(2)]
    for process in both:
        code, output = finish(process)
        assert code == 0, output
        assert f"{RUN}: " in output
    account_for(run, {"fails": "failed_exception"}, [])


def test_a_reader_is_never_in_the_way_of_a_run_and_sees_its_end(make_run: MakeRun) -> None:
    run = make_run("a_passes", "fails", "z_passes")
    run.plan.save(run.folder)
    ingest(run.store, run.folder)
    done = threading.Event()
    seen: list[int] = []
    failed: list[Exception] = []

    def read() -> None:
        try:
            with results.open(run.store) as reader:
                while not done.is_set() or not seen or not seen[-1]:
                    rows = reader.rows("v_cases", run=RUN)
                    seen.append(sum(row["outcome"] == "passed" for row in rows))
        except Exception as error:  # noqa: BLE001 - shown by the test
            failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    wait_until(lambda: seen or failed)
    try:
        run.supervise()
    finally:
        done.set()
        thread.join()
    assert not failed
    assert set(seen) == {0, 2}, "the whole run or nothing of it"
    account_for(run, {"fails": "failed_exception"}, [])


def test_a_plan_with_two_cases_of_one_id_is_refused(make_run: MakeRun) -> None:
    run = make_run("a_passes", "z_passes")
    with pytest.raises(PlanError, match="two cases have the id 'opinfo::f::c::a_passes'"):
        make_plan(run=RUN, device="cpu", profile="default", cases=[*run.plan.cases, run.plan.cases[0]])
