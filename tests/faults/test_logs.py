"""Logs that are torn, damaged, or say what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.standing import REFUSED_DIR
from results.events import Ended, Entered, Event, EventLog, RunStarted, read_log
from results.vocabulary import Fate, Outcome, RunState, Stage
from tests.faults.conftest import MakeRun
from tests.faults.runs import PREFIX, RUN, SmallRun, account_for, attempts_of, finish, message_of, quick


@pytest.mark.parametrize(
    ("victim", "words"),
    [
        ("writes_garbage", "not an event record"),
        ("speaks_for_nobody", "'opinfo::f::c::of_nobody', attempt 1, test is not its work"),
        ("speaks_for_another", "'opinfo::f::c::z_passes' was not in test then"),
    ],
)
def test_a_worker_whose_log_cannot_be_right_is_ended_and_what_it_said_before_stands(
    make_run: MakeRun, victim: str, words: str
) -> None:
    run = make_run("a_passes", victim, "z_passes")
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {victim: "crashed"}, [(Fate.LOG_REFUSED, victim)])
    assert "worker-00000.jsonl:4: " + words in message_of(run, victim)
    kept = (run.folder / REFUSED_DIR / "worker-00000.jsonl").read_bytes()
    taken = (run.folder / "events" / "worker-00000.jsonl").read_bytes()
    assert kept.startswith(taken)
    assert len(kept) > len(taken)


def test_of_two_results_the_first_stands_and_its_worker_is_ended(make_run: MakeRun) -> None:
    run = make_run("a_passes", "says_it_twice", "z_passes")
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {"says_it_twice": "failed_numeric"}, [(Fate.LOG_REFUSED, "")])


@pytest.mark.parametrize("log", ["worker-00000.jsonl", "supervisor.jsonl"])
def test_a_log_torn_anywhere_in_its_last_line_loses_that_line_only(
    make_run: MakeRun, tmp_path: Path, log: str
) -> None:
    run = make_run("a_passes", "z_passes")
    run.supervise()
    path = run.folder / "events" / log
    whole = path.read_bytes()
    events = [record.event for record in read_log(path)]
    start = whole.rfind(b"\n", 0, -1) + 1
    copy = tmp_path / log
    for end in range(start, len(whole)):
        copy.write_bytes(whole[:end])
        assert [record.event for record in read_log(copy)] == events[:-1]
        with EventLog(copy) as again:
            again.write(events[-1])
        assert [record.event for record in read_log(copy)] == events


def test_a_run_whose_logs_were_all_torn_goes_on(make_run: MakeRun) -> None:
    names = [f"passes[{i}]" for i in range(4)]
    run = make_run(*names)
    run.supervise()
    (run.store / "coverage.duckdb").unlink()
    for path in (run.folder / "events").iterdir():
        path.write_bytes(path.read_bytes()[:-9])
    assert run.supervise().state is RunState.COMPLETE
    account_for(run, {}, [])
    assert attempts_of(run, "passes[3]") == ["passed"]


def ended(name: str, outcome: Outcome = Outcome.PASSED, attempt: int = 1) -> Ended:
    return Ended(case=PREFIX + name, attempt=attempt, stage=Stage.TEST, outcome=outcome, seconds=0.0)


def _garbage(run: SmallRun) -> None:
    with (run.folder / "events" / "worker-00000.jsonl").open("ab") as file:
        file.write(b"\x00\x00 not a record\n")


def _append(*events: Event):
    def append(run: SmallRun) -> None:
        with EventLog(run.folder / "events" / "worker-00000.jsonl") as log:
            for event in events:
                log.write(event)

    return append


def _other_plan(run: SmallRun) -> None:
    event = RunStarted(
        run=RUN, plan_hash="0" * 64, planned=2, device="cpu", profile="default", harness_version="0",
        environment={},
    )  # fmt: skip
    with EventLog(run.folder / "events" / "another.jsonl") as log:
        log.write(event)


@pytest.mark.parametrize(
    ("hurt", "words"),
    [
        pytest.param(_garbage, "worker-00000.jsonl:5: not an event record", id="garbage"),
        pytest.param(_append(ended("a_passes")), "a second result for", id="two results"),
        pytest.param(
            _append(Entered(case=PREFIX + "of_nobody", attempt=1, stage=Stage.TEST)),
            "case 'opinfo::f::c::of_nobody' is not in the plan", id="unknown case",
        ),
        pytest.param(_other_plan, "but the plan beside it is 'r'", id="another plan"),
    ],
)  # fmt: skip
def test_contradicting_logs_are_refused_by_name_and_in_one_sentence(make_run: MakeRun, hurt, words) -> None:
    run = make_run("a_passes", "z_passes")
    run.supervise()
    (run.store / "coverage.duckdb").unlink()
    hurt(run)
    code, output = finish(quick("ingest", str(run.folder), "--store", str(run.store)))
    assert code == 2
    assert words in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("hurt", "words"),
    [
        pytest.param(_garbage, "worker-00000.jsonl:5: not an event record", id="garbage"),
        pytest.param(_append(ended("of_nobody")), "of_nobody' is not in the plan", id="unknown case"),
    ],
)
def test_a_run_with_damaged_logs_does_not_go_on(make_run: MakeRun, hurt, words) -> None:
    run = make_run("a_passes", "z_passes")
    run.supervise()
    hurt(run)
    with pytest.raises(UsageError, match=r"run r cannot go on: .*worker-00000\.jsonl:5: ") as raised:
        run.supervise()
    assert words in str(raised.value)


def test_a_clock_that_is_set_back_during_a_run_changes_no_result(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    from results import events

    class Clock:
        """Loses an hour at every look."""

        now = 1_800_000_000.0

        @classmethod
        def time(cls) -> float:
            cls.now -= 3600
            return cls.now

    monkeypatch.setattr(events, "time", Clock)
    run = make_run("a_passes", "hangs", "segfaults", "z_passes", **{"deadlines.test": 2.0})
    assert run.supervise().state is RunState.COMPLETE
    account_for(
        run,
        {"hangs": "timed_out", "segfaults": "crashed"},
        [(Fate.KILLED_AT_DEADLINE, "hangs"), (Fate.SIGNALLED, "segfaults")],
    )
    assert run.supervise().state is RunState.COMPLETE
