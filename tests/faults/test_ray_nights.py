"""Whole nights on a real Ray cluster of two nodes: sessions of pytest, logs that go over an object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray.cluster_utils import Cluster as NodesOfThisMachine

from harness import nightly, planning, processes, ray_node
from harness.errors import UsageError
from harness.job import ModelSettings
from harness.nightly import Run
from harness.profiles import load_profile
from harness.ray_cluster import Cluster, Resource, connected
from harness.ray_site import RaySite
from results.layout import run_folders, run_path
from results.plan import Case, load_plan, make_plan
from results.vocabulary import CaseKind, Fate, RunState
from tests.faults import object_store
from tests.faults.quick import CPU
from tests.faults.runs import account
from tests.faults.test_pytest import ID, write

LOGS = f"s3://{object_store.BUCKET}/logs"


@pytest.fixture(scope="module")
def storage() -> Iterator[None]:
    with object_store.object_store():
        yield


@pytest.fixture(scope="module")
def nodes(storage: None) -> Iterator[NodesOfThisMachine]:
    """A head without processors for tasks, and two nodes with one each."""
    nodes = NodesOfThisMachine(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    for _ in range(2):
        nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    yield nodes
    nodes.shutdown()


@pytest.fixture(scope="module")
def cluster(nodes: NodesOfThisMachine) -> Iterator[Cluster]:
    with connected(nodes.address, Resource("CPU"), 0) as cluster:
        yield cluster


@pytest.fixture
def night(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Night:
    monkeypatch.setattr(processes, "PRELOADED", ())
    monkeypatch.setattr(nightly, "usable_device", lambda *_: CPU)
    for module in (nightly, planning):
        monkeypatch.setattr(module, "suite_environment", lambda _: {})
    return Night(cluster, tmp_path)


class Night:
    """A night of pytest files on the cluster, as `harness nightly` runs it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.store = folder / "store"
        self.root = folder / "tests"

    def profile(self, **fields: Any) -> Any:
        few = {
            "engine": "ray", "ray_address": self.cluster.address, "device": "cpu", "suites": ["pytest"],
            "pytest_root": str(self.root), "pytest_paths": ["."], "attempts": 1,
        }  # fmt: skip
        return load_profile("default", {**few, **fields}, self.store)

    def run(self, **fields: Any) -> Run:
        return nightly.run(self.profile(**fields), self.store)

    def account(self, hurt: dict[str, str], deaths: list[tuple[Fate, str]]) -> None:
        (folder,) = run_folders(self.store)
        planned = [case.id for case in load_plan(folder).cases]
        account(self.store, planned, hurt, deaths)


def test_sessions_run_on_nodes_and_their_logs_travel_over_an_object_store(night: Night) -> None:
    write(
        night.root,
        test_a="import os\ndef test_a(): pass\ndef test_dies(): os._exit(255)\n"
        "def test_later(): pass\ndef test_fails(): assert 1 == 2",
        test_gone="import nonesuch",
    )
    assert night.run(events_url=LOGS).state is RunState.COMPLETE
    dies = f"{ID}test_a.py::-::test_dies"
    hurt = {
        dies: "crashed", f"{ID}test_a.py::-::test_fails": "failed_exception",
        f"{ID}test_gone.py::-::<collection>": "collection_error",
    }  # fmt: skip
    night.account(hurt, [(Fate.EXITED, dies)])
    (folder,) = run_folders(night.store)
    assert any("assert 1 == 2" in path.read_text() for path in (folder / "output").glob("*.log"))
    assert object_store.objects() == [], "what travelled is removed"


def test_a_session_whose_process_of_ray_is_killed_runs_again_and_does_not_live_on(night: Night) -> None:
    kills = (
        "import os, pathlib, time\ndef test_kills():\n    note = pathlib.Path('note')\n"
        "    if not note.exists():\n        note.write_text(str(os.getpid()))\n"
        "        left = lambda: pathlib.Path('../store').glob('runs/*/segments/*/0*')\n"
        "        while not any('test_kills' in path.read_text() for path in left()): time.sleep(0.05)\n"
        "        os.kill(os.getppid(), 9)\n        time.sleep(1000)\n"
    )
    write(night.root, test_a="def test_a(): pass", test_b=kills, test_c="def test_c(): pass")
    assert night.run().state is RunState.COMPLETE
    night.account({}, [(Fate.LOST, f"{ID}test_b.py::-::test_kills")])
    assert not psutil.pid_exists(int((night.root / "note").read_text()))


def test_a_bucket_that_is_not_there_is_said_and_not_made(night: Night) -> None:
    write(night.root, test_a="def test_a(): pass")
    with pytest.raises(UsageError) as refused:
        night.run(events_url="s3://nihgt/logs")
    assert str(refused.value).startswith("event logs cannot go to s3://nihgt/logs: node ")
    assert str(refused.value).endswith(" cannot write there: The specified bucket does not exist")
    assert object_store.buckets() == [object_store.BUCKET]
    assert not run_folders(night.store)


def test_a_supervisor_that_may_not_read_is_said_before_anything_runs(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(night.root, test_a="def test_a(): pass")
    monkeypatch.setenv(object_store.SECRET, "wrong")
    with object_store.fresh_connections(), pytest.raises(UsageError) as refused:
        night.run(events_url=LOGS)
    assert f"event logs cannot go to {LOGS}: a node can write there, but here it cannot" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not run_folders(night.store)


@pytest.mark.parametrize(
    ("secret", "words"),
    [("wrong", "The request signature we calculated does not match"), ("", "credentials")],
)
def test_a_node_that_may_not_write_is_said(
    storage: None, monkeypatch: pytest.MonkeyPatch, secret: str, words: str
) -> None:
    monkeypatch.setenv(object_store.SECRET, secret)
    with object_store.fresh_connections(), pytest.raises(UsageError) as refused:
        ray_node.leave(LOGS, "name", b"data")
    assert f"event logs cannot go to {LOGS}: node " in str(refused.value)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_tests_that_no_node_has_are_said(night: Night) -> None:
    with pytest.raises(UsageError, match=r"node .* has no folder .*/tests: pytest_root has to lie at the"):
        night.run()
    assert not run_folders(night.store)


def test_nodes_that_lose_the_tests_end_the_run(night: Night) -> None:
    spec = {"nodeid": "test_a.py::test_a", "collection": False, "root": str(night.root)}
    case = Case(id=f"{ID}test_a.py::-::test_a", kind=CaseKind.PYTEST, spec=spec)
    plan = make_plan(run="r", device="cpu", profile="default", cases=[case])
    plan.save(run_path(night.store, "r"))
    models = ModelSettings(endpoint="", cache=night.store, max_bytes=0, seed=0)
    place = RaySite(night.profile(), night.cluster)
    setup = nightly.Setup(CPU, place.profile, night.store, models, place)
    run = nightly.supervise(plan, setup)
    assert run.state is RunState.DEVICE_DOWN
    assert f"has no folder {night.root}" in run.reason
