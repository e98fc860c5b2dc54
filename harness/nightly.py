"""One night: plan, run, ingest, and what it comes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from harness import devices, hub, processes
from harness.environment import snapshot
from harness.errors import ExitCode
from harness.planning import new_run_id, plan_run
from harness.profiles import Profile
from harness.progress import Progress
from harness.supervisor import Supervisor
from results.layout import run_path
from results.plan import Plan
from results.vocabulary import RunState, Verdict

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        id: its id in the store.
        store: the store's folder.
        state: how it ended.
    """

    id: str
    store: Path
    state: RunState

    @property
    def exit_code(self) -> ExitCode:
        """What the run says to a CI job: the process's exit status."""
        if self.state is RunState.DEVICE_DOWN:
            return ExitCode.DEVICE
        from results.store import open_store

        with open_store(self.store) as store:
            verdicts = {row["verdict"]: row["cases"] for row in store.rows("v_verdicts", run=self.id)}
        if self.state is not RunState.COMPLETE or verdicts.get(Verdict.INCOMPLETE):
            return ExitCode.INCOMPLETE
        if verdicts.get(Verdict.REGRESSION) or verdicts.get(Verdict.UNEXPECTED_PASS):
            return ExitCode.REGRESSIONS
        return ExitCode.OK


def run(profile: Profile, store: Path, *, say: Say = lambda _: None, quiet: bool = True) -> Run:
    """Run a profile into a store: plan first, then every case, then the database.

    Args:
        profile: what to run; see :func:`harness.profiles.load_profile`.
        store: folder of the store; made if it is missing.
        say: takes a sentence about each step.
        quiet: show no progress line.

    Raises:
        HarnessError: the device, the hub or the selection cannot be used.
    """
    store = store.resolve()
    store.mkdir(parents=True, exist_ok=True)
    say("loading torch and transformers into the fork server")
    description = processes.call(devices.describe, profile.device)
    devices.require(description)
    with hub.serve(profile.hub, store) as endpoint:
        run_id = new_run_id(store, profile.device)
        plan = plan_run(profile, run_id, endpoint)
        folder = run_path(store, run_id)
        plan.save(folder)
        say(f"run {run_id}: {len(plan.cases)} cases planned on {description.count} {profile.device} devices")
        state = _supervise(plan, folder, profile, endpoint, store, snapshot(description), quiet)
    _ingest(store, folder)
    return Run(run_id, store, state)


def _supervise(
    plan: Plan,
    folder: Path,
    profile: Profile,
    endpoint: str,
    store: Path,
    environment: dict[str, str],
    quiet: bool,
) -> RunState:
    models = hub.model_settings(profile, endpoint, store)
    with Progress(plan.cases, quiet=quiet) as progress:
        return Supervisor(plan, folder, profile, models, environment, progress).run()


def _ingest(store: Path, folder: Path) -> None:
    from results.ingest import ingest

    ingest(store, folder)
