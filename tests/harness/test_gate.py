"""The gate: each exit status, from what the store says of a run, and the sentence that explains it."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import results
from harness import commands, nightly
from harness.cli import main
from harness.errors import ExitCode, InfrastructureError, NothingCollectedError, UsageError
from harness.gate import judge
from harness.nightly import Run
from harness.profiles import load_profile
from harness.unfinished import latest_unfinished
from results.events import RunEnded
from results.ingest import ingest
from results.layout import run_path
from results.plan import make_plan
from results.vocabulary import Expectation, Outcome, RunState, Stage
from tests.harness.night import Night
from tests.results import hurt
from tests.results.factory import (
    COMPLETE_RUN,
    INCOMPLETE_RUN,
    append,
    ended,
    make_store,
    opinfo_case,
    started,
    write_run,
)

P, FAIL = Outcome.PASSED, Expectation.FAIL
STOPPED = {"state": RunState.INTERRUPTED, "reason": "stopped by SIGTERM"}
DOWN = {"state": RunState.DEVICE_DOWN, "reason": "3 workers in a row died before their first case"}
RUNS: dict[str, tuple[Outcome | None, Expectation, dict[str, object], ExitCode, str, bool]] = {
    "all well": (P, Expectation.PASS, {}, ExitCode.OK, "", False),
    "unsupported": (Outcome.UNSUPPORTED, Expectation.PASS, {}, ExitCode.OK, "", False),
    "known": (Outcome.CRASHED, FAIL, {}, ExitCode.OK, "", False),
    "declared flaky": (Outcome.FAILED_NUMERIC, Expectation.FLAKY, {}, ExitCode.OK, "", False),
    "failed": (
        Outcome.FAILED_NUMERIC, Expectation.PASS, {}, ExitCode.REGRESSIONS, "1 regression of 1 case", False,
    ),
    "vacuous": (Outcome.VACUOUS, Expectation.PASS, {}, ExitCode.REGRESSIONS, "1 regression of 1 case", False),
    "better": (P, FAIL, {}, ExitCode.REGRESSIONS, "1 unexpected_pass of 1 case", False),
    "infra": (Outcome.INFRA_ERROR, FAIL, {}, ExitCode.INCOMPLETE, "could not be judged", False),
    "lost": (None, Expectation.PASS, {}, ExitCode.INCOMPLETE, "1 of 1 cases could not be judged", True),
    "stopped": (P, Expectation.PASS, STOPPED, ExitCode.INCOMPLETE, "interrupted: stopped by SIGTERM", True),
    "stopped, and failed": (Outcome.CRASHED, Expectation.PASS, STOPPED, ExitCode.INCOMPLETE, "SIGTERM", True),
    "down": (None, Expectation.PASS, DOWN, ExitCode.DEVICE, "the device is down: 3 workers in a row", True),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_judged_by_its_verdicts(tmp_path: Path, name: str) -> None:
    run, (*_, code, words, resumable) = _run(tmp_path, name), RUNS[name]
    judgement = run.judgement
    assert run.exit_code is judgement.code is code
    assert words in judgement.sentence
    assert bool(judgement.sentence) == (code is not ExitCode.OK)
    assert judgement.resumable == resumable


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ({"failing": 19, "passing": 1}, ExitCode.DEVICE),
        ({"failing": 10}, ExitCode.DEVICE),
        ({"failing": 18, "passing": 2}, ExitCode.DEVICE),
        ({"failing": 17, "passing": 3}, ExitCode.REGRESSIONS),
        ({"failing": 9}, ExitCode.REGRESSIONS),
        ({"failing": 40, "ops": 4}, ExitCode.REGRESSIONS),
        ({"failing": 40, "ops": 5}, ExitCode.DEVICE),
        ({"failing": 40, "alike": False}, ExitCode.REGRESSIONS),
        ({"failing": 19, "known": 80}, ExitCode.DEVICE),
        ({"failing": 1, "known": 80}, ExitCode.REGRESSIONS),
        ({"failing": 0, "known": 80}, ExitCode.OK),
        ({"failing": 12, "state": RunState.INTERRUPTED}, ExitCode.DEVICE),
    ],
)
def test_a_run_in_which_nearly_all_fails_in_one_way_is_a_fault_of_the_device_and_no_list_of_regressions(
    tmp_path: Path, shape: dict[str, object], code: ExitCode
) -> None:
    with results.open(hurt.uniform_store(tmp_path, **shape)) as store:
        judgement = judge(store, hurt.RUN)
    assert judgement.code is judgement.enforced(gate=False) or code is ExitCode.REGRESSIONS
    assert judgement.code is code
    assert ("RuntimeError: no device at 0x7f" in judgement.sentence) == (code is ExitCode.DEVICE)
    assert judgement.resumable == ("state" in shape)


def _run(folder: Path, name: str) -> Run:
    outcome, expectation, end, *_ = RUNS[name]
    store = hurt.one_case_store(folder, outcome, expectation, **end)
    return Run(hurt.RUN, store, RunState(end.get("state", RunState.COMPLETE)), str(end.get("reason", "")))


@pytest.mark.parametrize("name", ["all well", "failed", "infra", "stopped", "down"])
def test_each_command_exits_as_the_run_is_judged_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    *_, code, words, resumable = RUNS[name]
    run = _run(tmp_path / "store", name)
    store = run.store
    monkeypatch.setattr(nightly, "run", lambda *args, **kwargs: run)
    monkeypatch.setattr(nightly, "resume", lambda *args, **kwargs: run)
    junit = tmp_path / "junit.xml"
    place = ["--store", str(store)]
    for command in (["nightly", "--quiet"], ["resume", hurt.RUN, "--quiet"], ["report", "--gate"]):
        files = [] if command[0] == "report" else ["--junit", str(junit)]
        assert main([*command, *place, *files]) == code
        said = capsys.readouterr().err
        assert words in said
        assert (f"resume {hurt.RUN} --store {store}" in said) == resumable
        assert bool(said) == (code is not ExitCode.OK)
    assert _is_red(junit) == (code is not ExitCode.OK)
    kept = ExitCode.OK if code is ExitCode.REGRESSIONS else code
    for command in (
        ["nightly", "--quiet", "--report-only"],
        ["resume", hurt.RUN, "--quiet", "--report-only"],
    ):
        assert main([*command, *place]) == kept, "only regressions are forgiven"
    assert main(["report", *place]) == main(["report", "--report-only", *place]) == 0


def _is_red(path: Path) -> bool:
    return any(item.tag in ("failure", "error") for item in ElementTree.parse(path).iter())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("wrong"), 2),
        (InfrastructureError("the hub is away"), 4),
        (NothingCollectedError("nothing matched"), 5),
    ],
)
@pytest.mark.parametrize("command", [["nightly"], ["resume", "r"]])
def test_what_keeps_a_run_from_starting_has_its_exit_status(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    command: list[str],
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(nightly, "run", refuse)
    monkeypatch.setattr(nightly, "resume", refuse)
    for gate in ("--gate", "--report-only"):
        assert main([*command, gate]) == code
        assert str(error) in capsys.readouterr().err


def test_a_refused_log_makes_a_run_incomplete_and_not_resumable(tmp_path: Path) -> None:
    store = hurt.one_case_store(tmp_path, P, Expectation.PASS)
    case = opinfo_case("unplanned")
    append(run_path(store, hurt.RUN), "w", [ended(case, Stage.TEST)])
    assert ingest(store, run_path(store, hurt.RUN), strict=False).refused
    with results.open(store) as reader:
        judgement = judge(reader, hurt.RUN)
    assert judgement.code is ExitCode.INCOMPLETE
    assert "1 event log(s) refused" in judgement.sentence
    assert not judgement.resumable


def test_a_device_that_is_down_is_said_even_if_the_log_had_no_room_for_it(tmp_path: Path) -> None:
    store = hurt.one_case_store(tmp_path, None, Expectation.PASS, **STOPPED)
    run = Run(hurt.RUN, store, RunState.DEVICE_DOWN, "no worker starts")
    assert run.exit_code is ExitCode.DEVICE
    assert "no worker starts" in run.judgement.sentence


def test_a_junit_file_that_cannot_be_written_at_the_end_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = hurt.one_case_store(tmp_path / "store", P, Expectation.PASS)
    run = Run(hurt.RUN, store, RunState.COMPLETE)
    target = tmp_path / "out" / "junit.xml"

    def vanish(*args: object, **kwargs: object) -> Run:
        target.parent.rmdir()
        return run

    target.parent.mkdir()
    monkeypatch.setattr(nightly, "run", vanish)
    assert main(["nightly", "--junit", str(target), "--store", str(store)]) == ExitCode.DEVICE
    assert f"`harness report {hurt.RUN} --format junit` prints it" in capsys.readouterr().err


def test_a_junit_file_is_whole_or_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = hurt.one_case_store(tmp_path / "store", P, Expectation.PASS)
    target = tmp_path / "junit.xml"
    target.write_text("before")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("results.junit._case", full)
    with pytest.raises(InfrastructureError, match="No space left"):
        commands._write_junit(store, hurt.RUN, target)
    assert target.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["junit.xml", "store"]


@pytest.mark.parametrize(("words", "workers"), [([], 3), (["--workers", "5"], 5), (["--workers", "0"], 0)])
def test_a_run_goes_on_with_as_many_workers_as_it_began_with_or_as_are_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    workers: int,
) -> None:
    settings = dataclasses.replace(load_profile("default"), device="cpu", workers=3).settings()
    plan = make_plan(
        run="r-cpu", device="cpu", profile="default", cases=[opinfo_case("add")], settings=settings
    )
    plan.save(run_path(tmp_path, plan.run))

    def stop(_: object, setup: nightly.Setup) -> None:
        raise UsageError(f"{setup.profile.workers} workers")

    monkeypatch.setattr(nightly, "supervise", stop)
    assert main(["resume", "r-cpu", "--store", str(tmp_path), "--quiet", *words]) == 2
    assert f"{workers} workers" in capsys.readouterr().err


def test_resume_alone_takes_the_latest_run_that_was_cut_short(tmp_path: Path) -> None:
    _planned(tmp_path, "20260101-000000-neuron", RunState.INTERRUPTED)
    _planned(tmp_path, "20260102-000000-neuron", None)
    _planned(tmp_path, "20260103-000000-neuron", RunState.COMPLETE)
    assert latest_unfinished(tmp_path) == "20260102-000000-neuron"
    _planned(tmp_path, "20260104-000000-neuron", RunState.DEVICE_DOWN)
    assert latest_unfinished(tmp_path) == "20260104-000000-neuron"
    log = append(run_path(tmp_path, "20260104-000000-neuron"), "supervisor", [])
    log.write_bytes(log.read_bytes() + b'{"v":1,"seq"')
    assert latest_unfinished(tmp_path) == "20260104-000000-neuron", "a torn line is not an end"


def test_resume_alone_takes_a_run_that_was_killed_before_its_first_word(tmp_path: Path) -> None:
    folder = _planned(tmp_path, "20260101-000000-neuron", None)
    (folder / "events" / "supervisor.jsonl").unlink()
    assert latest_unfinished(tmp_path) == "20260101-000000-neuron"


def test_resume_alone_takes_a_run_that_ended_and_never_reached_the_database(tmp_path: Path) -> None:
    folder = _planned(tmp_path, "20260101-000000-neuron", RunState.COMPLETE)
    make_store(tmp_path, incomplete=False)
    assert latest_unfinished(tmp_path) == "20260101-000000-neuron"
    ingest(tmp_path, folder)
    with pytest.raises(UsageError, match="was cut short"):
        latest_unfinished(tmp_path)


def test_resume_alone_passes_by_runs_of_others_and_says_if_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_store(tmp_path)  # the incomplete run in it has no profile's settings
    assert main(["resume", "--store", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "no run in" in said
    assert INCOMPLETE_RUN in said
    assert COMPLETE_RUN not in said


def test_a_run_that_was_not_planned_from_a_profile_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_store(tmp_path)
    assert main(["resume", INCOMPLETE_RUN, "--store", str(tmp_path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.nightly
def test_a_night_that_is_stopped_says_how_to_go_on_and_goes_on(tmp_path: Path, hub: str) -> None:
    store, junit = tmp_path / "store", tmp_path / "junit.xml"
    selection = ("--suites", "opinfo", "--test-filter", "opinfo::op_db::bmm::*", "--junit", str(junit))
    night = Night(store, hub, *selection, faults="aten::bmm:hang")
    night.until_entered(lambda event: event.stage == Stage.TEST)
    night.process.send_signal(signal.SIGTERM)
    code, output = night.wait()
    folder = night.folder()
    assert folder is not None
    assert code == ExitCode.INCOMPLETE, output
    assert f"run {folder.name} exits 3: " in output
    assert "stopped by SIGTERM" in output
    assert f"resume {folder.name} --store {store}`" in output
    assert _is_red(junit)
    command = [sys.executable, "-m", "harness.cli", "resume", "--store", str(store), "--junit", str(junit)]
    done = subprocess.run([*command, "--quiet"], capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.OK, done.stderr
    assert f"Run {folder.name} on neuron" in done.stdout
    assert "resumed once" in done.stdout
    assert not _is_red(junit)
    assert main(["resume", "--store", str(store)]) == ExitCode.USAGE, "there is none any more"


def _planned(store: Path, run: str, state: RunState | None) -> Path:
    profile = load_profile("default", {}, store)
    plan = make_plan(
        run=run, device="neuron", profile="default", cases=[opinfo_case()], settings=profile.settings()
    )
    end = [] if state is None else [RunEnded(run=run, state=state)]
    return write_run(run_path(store, run), plan, {"supervisor": [started(plan), *end]})
