"""One night: plan, run, ingest, and what it comes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from harness import devices, hub, processes
from harness.devices.base import Description
from harness.environment import snapshot
from harness.errors import ExitCode
from harness.job import ModelSettings
from harness.planning import new_run_id, plan_run
from harness.profiles import Profile
from harness.progress import Progress
from harness.supervisor import Supervisor
from results.ingest import ingest
from results.layout import run_path
from results.plan import Plan
from results.store import open_store
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
    say("loading torch and transformers into the fork server")
    description = usable_device(profile.device)
    with hub.serve(profile.hub, store) as endpoint:
        plan = plan_run(profile, new_run_id(store, profile.device), endpoint, say)
        say(
            f"run {plan.run}: {len(plan.cases)} cases planned on {description.count} {profile.device} devices"
        )
        models = hub.model_settings(profile, endpoint, store)
        return execute(plan, description, profile, store, models, quiet=quiet)


def usable_device(name: str) -> Description:
    """Describe a device, in a child.

    Raises:
        DeviceError: it cannot be used.
    """
    description = processes.call(devices.describe, name)
    devices.require(description)
    return description


def execute(
    plan: Plan,
    description: Description,
    profile: Profile,
    store: Path,
    models: ModelSettings,
    *,
    quiet: bool,
) -> Run:
    """Write a plan into a store, run it, and take what happened into the database."""
    folder = run_path(store, plan.run)
    plan.save(folder)
    with Progress(plan.cases, quiet=quiet) as progress:
        state = Supervisor(plan, folder, profile, models, snapshot(description), progress).run()
    ingest(store, folder)
    return Run(plan.run, store, state)
