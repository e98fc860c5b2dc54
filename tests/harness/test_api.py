"""The Python API, on the CPU as the device under test: the harness checked against itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
import results
from harness.errors import ExitCode, NothingCollectedError
from harness.nightly import Run
from results.vocabulary import RunState

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    store = tmp_path_factory.mktemp("api") / "store"
    return harness.run(store=store, device="cpu", suites=["opinfo"], test_filter="opinfo::op_db::add*")


def test_the_reference_agrees_with_itself(finished: Run) -> None:
    assert (finished.state, finished.exit_code) == (RunState.COMPLETE, ExitCode.OK)
    with results.open(finished.store) as store:
        frame = store.view("v_cases", run=finished.id)
    assert set(frame["outcome"]) == {"passed", "unsupported"}
    assert len(frame) >= 12


def test_every_call_on_the_cpu_is_a_device_call(finished: Run) -> None:
    with results.open(finished.store) as store:
        (share,) = store.rows("v_device_share", run=finished.id)
        assert not store.rows("v_gaps", run=finished.id)
    assert share["device_calls"] > 0
    assert share["fallback_calls"] == 0


def test_a_selection_of_nothing_is_said_and_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(NothingCollectedError, match="matched no case"):
        harness.run(store=tmp_path, device="cpu", suites=["opinfo"], test_filter="nothing*")
    assert not (tmp_path / "runs").exists()
