"""What ``harness expectations update`` takes from a store, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import expecting
from harness.cli import main
from harness.errors import UsageError
from results.events import Entered, RunEnded
from results.ingest import ingest
from results.layout import run_path
from results.plan import make_plan
from results.vocabulary import Outcome, RunState, Stage
from tests.results.factory import (
    COMPLETE_RUN,
    INCOMPLETE_RUN,
    ended,
    make_store,
    opinfo_case,
    started,
    write_run,
)

OPS = ("add", "cumsum", "mul", "sub")
P, N, C = Outcome.PASSED, Outcome.FAILED_NUMERIC, Outcome.CRASHED


@pytest.fixture(autouse=True)
def no_packaged_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(expecting, "packaged_expectations", lambda device: tmp_path / "packaged" / device)


def add_run(store: Path, run: str, *outcomes: Outcome, time: float = 0.0) -> None:
    """A run of the operators above with one outcome each."""
    cases = [opinfo_case(op) for op in OPS[: len(outcomes)]]
    plan = make_plan(run=run, device="neuron", profile="p", cases=cases)
    events: list[object] = [started(plan)]
    for case, outcome in zip(cases, outcomes, strict=True):
        events += [
            Entered(case=case.id, attempt=1, stage=Stage.TEST),
            ended(case, Stage.TEST, outcome, message="m"),
        ]
    events.append(RunEnded(run=run, state=RunState.COMPLETE))
    ingest(store, write_run(run_path(store, run), plan, {"supervisor": events}))


def proposed(store: Path, run: str, **fields: object) -> expecting.Proposal:
    return expecting.propose(store, run, file=store / "known.toml", **fields)  # type: ignore[arg-type]


def test_what_passed_in_any_earlier_run_is_a_regression_and_what_never_did_is_new(tmp_path: Path) -> None:
    add_run(tmp_path, "a", P, N, P)
    add_run(tmp_path, "b", C, N, P)
    add_run(tmp_path, "c", C, N, P, N)
    update = proposed(tmp_path, "c").update
    assert update.regressions == [opinfo_case("add").id]
    assert set(update.added) == {opinfo_case("cumsum").id, opinfo_case("sub").id}
    accepted = proposed(tmp_path, "c", accept_regressions=True).update
    assert set(accepted.added) == {opinfo_case(op).id for op in ("add", "cumsum", "sub")}


def test_a_later_run_is_no_evidence_and_another_device_neither(tmp_path: Path) -> None:
    add_run(tmp_path, "a", N)
    add_run(tmp_path, "b", P)
    assert proposed(tmp_path, "a").update.regressions == []


def test_new_entries_go_to_the_file_of_the_device_unless_one_is_named(tmp_path: Path) -> None:
    add_run(tmp_path, "a", N)
    (edit,) = expecting.propose(tmp_path, "a").edits
    assert edit.path == tmp_path / "packaged" / "neuron" / "known.toml"
    expecting.propose(tmp_path, "a").write()
    assert edit.path.read_text() == edit.new
    assert edit.diff.startswith("--- /dev/null\n")


def test_an_incomplete_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_store(tmp_path)
    with pytest.raises(UsageError, match=r"2026-11-04-night is not complete.*4 of 208 cases"):
        proposed(tmp_path, INCOMPLETE_RUN)
    code = main(["expectations", "update", "--store", str(tmp_path), "--from", INCOMPLETE_RUN])
    assert code == 2
    assert "is not complete" in capsys.readouterr().err


def test_failures_that_tell_no_category_are_named_and_fail_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_store(tmp_path, incomplete=False)
    file = tmp_path / "known.toml"
    arguments = [
        "expectations",
        "update",
        "--store",
        str(tmp_path),
        "--from",
        COMPLETE_RUN,
        "--file",
        str(file),
    ]
    assert main([*arguments, "--dry-run"]) == 1
    said = capsys.readouterr()
    assert "tells no category; give one with --category" in said.err
    assert not file.exists()
    assert main([*arguments, "--category", "device_bug"]) == 0
    assert file.exists()
    assert main([*arguments, "--category", "device_bug"]) == 0
    assert "0 added, 0 removed, 0 changed" in capsys.readouterr().err
