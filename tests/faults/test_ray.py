"""Nights on a real Ray cluster of this machine whose nodes and processes are killed in the middle."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster as NodesOfThisMachine

import results
from harness import ray_engine, ray_node, sites
from harness.engine import Batch
from harness.errors import InfrastructureError, UsageError
from harness.job import Job, ModelSettings
from harness.profiles import Profile, load_profile
from harness.progress import Progress
from harness.ray_cluster import Cluster, Resource, connected
from harness.ray_engine import RayEngine
from harness.ray_node import Returned, Work
from harness.standing import REFUSED_DIR
from harness.supervisor import Supervisor
from results.events import Ended, Event, RunEnded, WorkerEnded, WorkerStarted, read_log
from results.ingest import ingest
from results.plan import Plan
from results.vocabulary import Fate, Outcome, RunState
from tests.faults import ray_nodes
from tests.faults.runs import PREFIX
from tests.harness.night import FEW_TESTS, outcomes
from tests.harness.night import Night as CommandLine
from tests.harness.test_supervisor import deaths, ends, plan_of

NEURON = Resource("neuron_cores", "NEURON_RT_VISIBLE_CORES")
CORES = 2
QUICK = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 5000,
}
"""The head asks nodes for their health more often than it does by default."""

Task = Callable[[Work], Returned]


@pytest.fixture(scope="module")
def nodes() -> Iterator[NodesOfThisMachine]:
    """A head without the device, and one node with it."""
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": QUICK}
    nodes = NodesOfThisMachine(initialize_head=True, head_node_args=head)
    nodes.add_node(num_cpus=1, resources={NEURON.name: CORES})
    yield nodes
    nodes.shutdown()


@pytest.fixture(scope="module")
def cluster(nodes: NodesOfThisMachine) -> Iterator[Cluster]:
    with connected(nodes.address, NEURON, 0) as cluster:
        yield cluster


class Night:
    """A run on the cluster, of a plan whose cases only sleep or hurt themselves."""

    def __init__(self, cluster: Cluster, store: Path, task: Task, *names: str, **fields: Any) -> None:
        self.plan: Plan = plan_of(*names)
        self.folder = store / "runs" / self.plan.run
        self.plan.save(self.folder)
        self.profile: Profile = load_profile("default", {"attempts": 1, **fields}, store)
        self.engine = RayEngine(cluster, self.profile.limits, url=self.profile.events_url, task=task)
        self._models = ModelSettings(endpoint="", cache=store, max_bytes=0, seed=0)

    def run(self) -> tuple[RunState, list[Event]]:
        progress = Progress(self.plan.cases, stream=io.StringIO())
        supervisor = Supervisor(self.plan, self.folder, self.profile, self._models, {}, progress, self.engine)
        state, _ = supervisor.run()
        return state, self.events()

    def start(self) -> Batch:
        return self.engine.start(
            Job(
                worker="worker-00000", folder=self.folder, compiler_cache=self.folder, device="neuron",
                cases=self.plan.cases, attempt=1, threads=1, models=self._models,
            )
        )  # fmt: skip

    def events(self) -> list[Event]:
        logs = sorted((self.folder / "events").glob("*.jsonl"))
        return [record.event for log in logs for record in read_log(log)]

    def in_the_third_stage(self) -> int:
        """How many workers are known to have entered it."""
        logs = (self.folder / "events").glob("worker-*.jsonl")
        return sum(len(log.read_text().splitlines()) == 5 for log in logs)


def in_the_store(night: Night, store: Path) -> None:
    """Every case has its one result there, twice ingested or not, and nothing was refused."""
    for _ in range(2):
        report = ingest(store, night.folder)
        assert (report.refused, report.complete) == ((), True)
    with results.open(store) as reader:
        outcomes = reader.rows("v_outcomes", run=night.plan.run)
        assert sum(row["cases"] for row in outcomes) == len(night.plan.cases)


def test_a_node_that_dies_takes_nothing_with_it(
    nodes: NodesOfThisMachine, cluster: Cluster, tmp_path: Path
) -> None:
    second = nodes.add_node(num_cpus=1, resources={NEURON.name: CORES})
    nodes.wait_for_nodes()
    names = ["model::a/b@0", "model::a/c@0", *(f"passes[{i:02}]" for i in range(14))]
    night = Night(cluster, tmp_path, ray_nodes.slow, *names, batch=7)

    (tmp_path / ray_nodes.HOLD).touch()

    def kill_one_when_all_are_in_the_middle() -> None:
        while night.in_the_third_stage() < 2 * CORES:
            time.sleep(0.05)
        nodes.remove_node(second, allow_graceful=False)
        while len(deaths(night.events())) < CORES:  # its processes live on for a second
            time.sleep(0.05)
        (tmp_path / ray_nodes.HOLD).unlink()

    killer = threading.Thread(target=kill_one_when_all_are_in_the_middle, daemon=True)
    killer.start()
    state, events = night.run()
    killer.join()
    assert state is RunState.COMPLETE
    lost = deaths(events)
    assert [death.fate for death in lost] == [Fate.LOST] * CORES
    assert all("node" in death.output_tail for death in lost)
    again = {event.case for event in events if isinstance(event, Ended) and event.attempt > 1}
    assert again == {death.case for death in lost}, "what was under way is a new attempt, and nothing else"
    results_of = Counter(
        (event.case, event.attempt, event.stage) for event in events if isinstance(event, Ended)
    )
    assert set(results_of.values()) == {1}
    in_the_store(night, tmp_path)
    assert not (night.folder / ray_engine.SEGMENTS_DIR).exists()
    deadline = time.monotonic() + 60
    while night.engine.slots != CORES and time.monotonic() < deadline:
        time.sleep(0.2)
    assert night.engine.slots == CORES, "the room that went with the node is no longer counted"


def test_a_process_of_ray_that_is_killed_is_a_lost_worker(cluster: Cluster, tmp_path: Path) -> None:
    names = [f"passes[{i}]" for i in range(6)]
    night = Night(cluster, tmp_path, ray_nodes.killed_once, *names)
    state, events = night.run()
    assert state is RunState.COMPLETE
    (death,) = deaths(events)
    assert death.fate is Fate.LOST
    assert ends(events) == dict.fromkeys(names, Outcome.PASSED)
    in_the_store(night, tmp_path)


@pytest.mark.parametrize("separate", [False, True], ids=["the run's folder", "a URL"])
def test_limits_hold_on_the_node_and_fates_are_told_apart(
    cluster: Cluster, tmp_path: Path, separate: bool
) -> None:
    url = f"file://{tmp_path}/logs" if separate else ""
    names = ["a_passes", "hangs_with_child", "leaves", "passes", "segfaults", "z_passes"]
    night = Night(cluster, tmp_path, ray_nodes.behaving, *names, events_url=url, **{"deadlines.test": 2.0})
    state, events = night.run()
    assert state is RunState.COMPLETE
    hurt = {"hangs_with_child": "timed_out", "leaves": "crashed", "segfaults": "crashed"}
    assert ends(events) == {name: hurt.get(name, "passed") for name in names}
    assert {death.fate for death in deaths(events)} == {
        Fate.KILLED_AT_DEADLINE, Fate.EXITED, Fate.SIGNALLED
    }  # fmt: skip
    in_the_store(night, tmp_path)


def test_a_worker_whose_log_cannot_be_right_is_ended_on_the_node_and_its_log_is_kept(
    cluster: Cluster, tmp_path: Path
) -> None:
    night = Night(cluster, tmp_path, ray_nodes.misbehaving, "a_passes", "speaks_for_nobody", "z_passes")
    state, events = night.run()
    assert state is RunState.COMPLETE
    assert ends(events) == {"a_passes": "passed", "speaks_for_nobody": "crashed", "z_passes": "passed"}
    assert [death.fate for death in deaths(events)] == [Fate.LOG_REFUSED]
    kept = night.folder / REFUSED_DIR / "worker-00000.jsonl"
    assert "of_nobody" in kept.read_text()
    in_the_store(night, tmp_path)


def test_a_log_that_arrives_as_another_batchs_is_refused_and_what_stood_before_stands(
    cluster: Cluster, tmp_path: Path
) -> None:
    names = [f"passes[{i}]" for i in range(6)]
    night = Night(cluster, tmp_path, ray_nodes.of_another_batch, *names, workers=1)
    state, events = night.run()
    assert state is RunState.COMPLETE
    (death,) = deaths(events)
    assert (death.fate, death.case) == (Fate.LOST, f"{PREFIX}passes[2]")
    assert "worker-00000.jsonl:6: 'opinfo::f::c::of_nobody', attempt 1, test is not" in death.output_tail
    assert ends(events) == dict.fromkeys(names, Outcome.PASSED)
    again = {event.case for event in events if isinstance(event, Ended) and event.attempt > 1}
    assert again == {death.case}
    taken = (night.folder / "events" / "worker-00000.jsonl").read_bytes()
    kept = (night.folder / REFUSED_DIR / "worker-00000.jsonl").read_bytes()
    assert (len(taken.splitlines()), len(kept.splitlines())) == (5, 6)
    assert kept.startswith(taken)
    in_the_store(night, tmp_path)


def test_stopping_ends_the_process_on_the_node(cluster: Cluster, tmp_path: Path) -> None:
    night = Night(cluster, tmp_path, ray_nodes.slow, *(f"passes[{i:02}]" for i in range(30)))
    (tmp_path / ray_nodes.HOLD).touch()  # in the third case, however long we take to look
    batch = night.start()
    while not batch.now:
        batch.look()
        time.sleep(0.05)
    pid = int((tmp_path / "worker-00000.pid").read_text())
    assert psutil.pid_exists(pid)
    batch.stop()
    end = batch.end
    assert end is not None
    assert end.fate is Fate.INTERRUPTED
    assert end.interrupted is not None
    done = [event for event in night.events() if isinstance(event, Ended)]
    assert len(done) + 1 + len(end.remaining) == 30
    assert not psutil.pid_exists(pid)


def test_an_interrupted_run_goes_on_and_repeats_only_what_was_under_way(
    cluster: Cluster, tmp_path: Path
) -> None:
    names = ["model::a/b@0", *(f"passes[{i}]" for i in range(6))]
    first = Night(cluster, tmp_path, ray_nodes.slow, *names)
    (tmp_path / ray_nodes.HOLD).touch()

    def interrupt_in_the_middle() -> None:
        while first.in_the_third_stage() < CORES:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_in_the_middle, daemon=True).start()
    state, events = first.run()
    assert state is RunState.INTERRUPTED
    under_way = {death.case for death in deaths(events)}
    assert len(under_way) == CORES
    (tmp_path / ray_nodes.HOLD).unlink()
    second = Night(cluster, tmp_path, ray_nodes.slow, *names)
    state, events = second.run()
    assert state is RunState.COMPLETE
    assert {event.case for event in events if isinstance(event, Ended) and event.attempt > 1} == under_way
    in_the_store(second, tmp_path)


def test_a_batch_may_hold_its_share_of_its_node(cluster: Cluster, tmp_path: Path) -> None:
    night = Night(cluster, tmp_path, ray_nodes.slow, "passes")
    share = int(psutil.virtual_memory().total * 0.9 / CORES)
    asked = ray.remote(**NEURON.options)(ray_node.node_limits)
    unset = dataclasses.replace(night.profile.limits, memory=0)
    assert ray.get(asked.remote(unset, NEURON.name)).memory == share
    assert ray.get(asked.remote(dataclasses.replace(unset, memory=5), NEURON.name)).memory == 5


def test_what_a_worker_printed_comes_with_it(cluster: Cluster, tmp_path: Path) -> None:
    night = Night(cluster, tmp_path, ray_nodes.slow, "passes")
    night.run()
    assert (night.folder / "output" / "worker-00000.log").read_text() == "worker-00000 at work\n"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (ray_nodes.without_a_device, "the device does not answer"),
        (ray_nodes.elsewhere, "set events_url to a place that it and the supervisor share"),
        (ray_nodes.of_another_version, "has harness"),
    ],
)
def test_a_cluster_on_which_nothing_works_ends_the_run_and_says_why(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: Task, words: str
) -> None:
    monkeypatch.setattr(ray_engine, "_ARRIVAL_SECONDS", 1.0)
    night = Night(cluster, tmp_path, task, *(f"passes[{i}]" for i in range(4)), batch=1)
    state, events = night.run()
    assert state is RunState.DEVICE_DOWN
    assert not ends(events)
    (end,) = [event for event in events if isinstance(event, RunEnded)]
    assert words in end.reason
    assert {event.worker for event in events if isinstance(event, WorkerStarted)} == {
        event.worker for event in events if isinstance(event, WorkerEnded)
    }


def test_a_run_stops_when_no_node_is_left_for_long(
    nodes: NodesOfThisMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    gone = Cluster(Resource("nonesuch"), nodes.address)
    assert gone.total == 0
    monkeypatch.setattr("harness.ray_cluster.PATIENCE", 0.0)
    state, events = Night(gone, tmp_path, ray_nodes.behaving, "passes").run()
    assert state is RunState.INTERRUPTED
    (end,) = [event for event in events if isinstance(event, RunEnded)]
    assert "has offered 'nonesuch'" in end.reason


def test_a_cluster_without_the_device_is_refused_with_what_to_do(
    nodes: NodesOfThisMachine, cluster: Cluster
) -> None:
    with (
        pytest.raises(InfrastructureError, match=r"offers 'nonesuch'; start one with .*\"nonesuch\": N"),
        connected(nodes.address, Resource("nonesuch"), 0),
    ):
        pass
    assert ray.is_initialized(), "a connection that was there before is kept"


def test_a_cluster_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with (
        pytest.raises(InfrastructureError, match=r"Ray cluster at 127\.0\.0\.1:9 does not answer"),
        connected("127.0.0.1:9", NEURON, 0),
    ):
        pass
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(UsageError, match="HOST:PORT of its head, not 'auto'"), connected("", NEURON, 0):
        pass


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with (
        pytest.raises(UsageError, match=r"pip install 'torchneuron-harness\[ray\]'"),
        sites.site(load_profile("default", {"engine": "ray"})),
    ):
        pass


def test_a_url_that_nothing_installed_can_write_to_is_said(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="event logs cannot go to nonesuch://bucket"):
        Night(cluster, tmp_path, ray_nodes.slow, "passes", events_url="nonesuch://bucket")


@pytest.mark.nightly
def test_a_night_on_a_cluster_of_its_own(tmp_path: Path, hub: str) -> None:
    night = CommandLine(
        tmp_path, hub, "--engine", "ray", "--suites", "opinfo", "--test-filter", FEW_TESTS, "--workers", "1"
    )
    code, output = night.wait()
    assert code == 0, output
    assert {outcome for _, _, outcome in outcomes(tmp_path)} == {"passed"}
