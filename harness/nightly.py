"""One night: plan, run, ingest, and what it comes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from harness import devices, hub, processes
from harness.devices.base import Description
from harness.environment import snapshot
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.gate import Judgement, judge
from harness.history import history
from harness.job import ModelSettings
from harness.lock import sole_supervisor
from harness.planning import new_run_id, plan_run, suite_environment
from harness.prefetching import prefetching
from harness.profiles import Profile, stored_profile
from harness.progress import Progress
from harness.sites import Site, site
from harness.supervisor import Supervisor
from harness.upstream import upstream_facts
from results.events import EventLogError
from results.ingest import ContradictionError, IngestError, ingest
from results.layout import StoreError, run_folders, run_path
from results.plan import Plan, load_plan
from results.store import open_store
from results.vocabulary import CaseKind, RunState

_WRITER_SECONDS = 600
"""How long the end of a run waits for somebody else who writes to the store."""

_INGEST_SECONDS = 6 * 3600
"""How long it may take to write a run into the database, the wait included."""

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        id: its id in the store.
        store: the store's folder.
        state: how it ended.
        reason: why it ended so, ``""`` for a run that came to its end.
    """

    id: str
    store: Path
    state: RunState
    reason: str = ""

    @property
    def judgement(self) -> Judgement:
        """What the run comes to, and why."""
        with open_store(self.store) as store:
            found = judge(store, self.id)
        if self.state is RunState.DEVICE_DOWN:  # its log may have had no room left to say so
            return Judgement(ExitCode.DEVICE, f"the device is down: {self.reason}", resumable=True)
        return found

    @property
    def exit_code(self) -> ExitCode:
        """What the run says to a CI job: the process's exit status."""
        return self.judgement.code


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """What a plan is run with.

    Attributes:
        description: of the device, where it is to be used.
        profile: how batches are made and limited.
        store: folder of the store that takes the run.
        models: what workers need to fetch models.
        place: where batches run.
        quiet: show no progress line.
    """

    description: Description
    profile: Profile
    store: Path
    models: ModelSettings
    place: Site
    quiet: bool = True


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
    with site(profile) as place:
        description = usable_device(place, profile.device)
        with hub.serve_for(profile, store, place.host) as endpoint:
            run_id = new_run_id(store, profile.device)
            plan = plan_run(profile, run_id, endpoint, say, place.collect, store)
            planned, count = len(plan.cases), description.count
            say(f"run {plan.run}: {planned} cases planned on {count} {profile.device} devices")
            models = hub.model_settings(profile, endpoint, store, place.host)
            return execute(plan, Setup(description, profile, store, models, place, quiet))


def usable_device(place: Site, name: str) -> Description:
    """Describe a device where it is to be used.

    Raises:
        DeviceError: it cannot be used.
    """
    description = place.describe(name)
    devices.require(description)
    return description


def resume(
    run: str,
    store: Path,
    *,
    engine: str | None = None,
    workers: int | None = None,
    say: Say = lambda _: None,
    quiet: bool = True,
) -> Run:
    """Go on with a run that was cut short, until every case of its plan has a result.

    Args:
        engine: another one than it began with.
        workers: another number of processes than it began with; 0 is one a core.

    Raises:
        HarnessError: there is no such run, somebody supervises it, or what it needs cannot be used.
    """
    store = store.resolve()
    folder = run_path(store, run)
    known = [path.name for path in run_folders(store)]
    if run not in known:
        raise UsageError(f"{store} has no run {run!r}; the last ones are: {', '.join(known[-5:]) or 'none'}")
    plan = load_plan(folder)
    profile = stored_profile(plan.settings)
    if workers is None:
        workers = profile.workers
    profile = dataclasses.replace(profile, engine=engine or profile.engine, workers=workers)
    say("loading torch and transformers into the fork server")
    with site(profile) as place:
        description = usable_device(place, plan.device)
        with hub.serve_for(profile, store, place.host) as endpoint:
            models = hub.model_settings(profile, endpoint, store, place.host)
            return supervise(plan, Setup(description, profile, store, models, place, quiet))


def execute(plan: Plan, setup: Setup) -> Run:
    """Write a plan into a store, run it, and take what happened into the database."""
    plan.save(run_path(setup.store, plan.run))
    return supervise(plan, setup)


def supervise(plan: Plan, setup: Setup) -> Run:
    """Run what a plan in a store still lacks, and take what happened into the database.

    Raises:
        UsageError: another process supervises the run, or its logs are damaged.
    """
    store, folder = setup.store, run_path(setup.store, plan.run)
    known = history(store, plan.device)
    with (
        sole_supervisor(folder),
        prefetching(plan.cases, setup.profile, setup.models, known),
        Progress(plan.cases, quiet=setup.quiet) as progress,
    ):
        supervisor = Supervisor(
            plan,
            folder,
            setup.profile,
            setup.models,
            snapshot(setup.description) | upstream_facts(plan, store),
            progress,
            setup.place.engine(),
            known,
            suite_environment(plan.device) if any(c.kind is CaseKind.PYTEST for c in plan.cases) else {},
        )
        try:
            state, reason = supervisor.run()
        except EventLogError as error:
            raise UsageError(f"run {plan.run} cannot go on: {error}") from error
    processes.call(take_in, store, plan.run, timeout=_INGEST_SECONDS)
    return Run(plan.run, store, state, reason)


def take_in(store: Path, run: str) -> None:
    """Take what a run's logs say into the database; called in a process of its own.

    What the database needs grows with a run and with the store. In another process it is no part of the
    supervisor's memory, and a death of it is a sentence.

    Raises:
        InfrastructureError: the store cannot be written.
        UsageError: the logs contradict the plan, each other or the store.
    """
    try:
        ingest(store, run_path(store, run), wait=_WRITER_SECONDS)
    except (OSError, StoreError) as error:
        raise InfrastructureError(
            f"the results of run {run} could not be taken into the database: {error}; "
            f"its logs are kept: then `harness resume {run}`"
        ) from error
    except (ContradictionError, IngestError) as error:
        raise UsageError(f"run {run} is over, but the database refuses it: {error}") from error
