"""Failures that come and go: repeated alone, told apart from lasting ones, and traced to who disturbs."""

from __future__ import annotations

import results
from results.scoreboard import scoreboard
from results.vocabulary import Fate, RunState
from tests.faults.conftest import MakeRun
from tests.faults.runs import PREFIX, RUN, SmallRun, account_for, attempts_of


def flakes(run: SmallRun) -> dict[str, list[str]]:
    with results.open(run.store) as store:
        rows = store.rows("v_flakes", run=RUN)
    return {row["case_id"].removeprefix(PREFIX): list(row["disturbed_by"] or ()) for row in rows}


def test_a_case_that_fails_first_and_passes_alone_is_a_flake_with_both_attempts_kept(
    make_run: MakeRun,
) -> None:
    run = make_run("a_passes", "fails_once", "z_passes", attempts=2)
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {}, [])
    assert attempts_of(run, "fails_once") == ["failed_exception", "passed"]
    assert flakes(run) == {"fails_once": []}


def test_a_case_that_always_fails_is_no_flake(make_run: MakeRun) -> None:
    run = make_run("a_passes", "fails", "segfaults", "z_passes", attempts=3)
    run.supervise()
    account_for(
        run, {"fails": "failed_exception", "segfaults": "crashed"}, [(Fate.SIGNALLED, "segfaults")] * 3
    )
    assert attempts_of(run, "fails") == ["failed_exception"] * 3
    assert attempts_of(run, "segfaults") == ["crashed"] * 3
    assert not flakes(run)


def test_who_disturbs_a_case_is_found_among_many(make_run: MakeRun) -> None:
    passing = [f"passes[{i:02}]" for i in range(12)]
    run = make_run("disturbs", *passing, "z_is_disturbed", attempts=2)
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {}, [])
    assert flakes(run) == {"z_is_disturbed": [PREFIX + "disturbs"]}


def test_a_failure_that_comes_as_it_likes_accuses_nobody(make_run: MakeRun) -> None:
    run = make_run("a_passes", "b_passes", "z_comes_and_goes", attempts=2)
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {}, [])
    assert flakes(run) == {"z_comes_and_goes": []}
    with results.open(run.store) as store:
        (flake,) = scoreboard(store, RUN).flakes
    assert flake.cause == ("not reproducible in 3 experiments",)
