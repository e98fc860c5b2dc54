"""One model, now: will it run on this device, and what would it fall back for?"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

from harness import devices, hub, processes
from harness.environment import snapshot as environment
from harness.errors import UsageError
from harness.planning import model_case, new_run_id
from harness.profiles import EMBEDDED_HUB, Profile
from harness.progress import Progress
from harness.supervisor import Supervisor
from model_zoo.catalog import CatalogError, lookup
from results.ingest import ingest
from results.layout import CACHE_DIR, run_path
from results.plan import make_plan

DEFAULT_HUB = "https://huggingface.co"


def probe(
    model: str, profile: Profile, store: Path, *, hub_name: str | None, quiet: bool
) -> tuple[Path, str]:
    """Run one model through its stages.

    Results go to a store of their own below the given one, so that a probe never stands among nights.

    Args:
        model: ``org/name`` or ``org/name@revision``.
        hub_name: where from; by default ``HF_ENDPOINT``, else the embedded mirror where it has the
            model, else the real Hub.

    Returns:
        The probe store and the id of the run in it.

    Raises:
        UsageError: no hub has such a model.
    """
    repo_id, _, revision = model.partition("@")
    if not repo_id or repo_id.startswith("-"):
        raise UsageError(f"{model!r} is not a model id; give org/name or org/name@revision")
    description = processes.call(devices.describe, profile.device)
    devices.require(description)
    place = store.resolve() / CACHE_DIR / "probe"
    with _endpoint(repo_id, store.resolve(), hub_name) as endpoint:
        try:
            entry = lookup(endpoint, repo_id, revision or None)
        except CatalogError as error:
            raise UsageError(f"{endpoint} has no model {model!r}: {error}") from error
        run_id = new_run_id(place, profile.device)
        plan = make_plan(
            run=run_id,
            device=profile.device,
            profile="probe",
            cases=[model_case(entry)],
            settings=dataclasses.replace(profile, name="probe").settings(),
        )
        folder = run_path(place, run_id)
        plan.save(folder)
        models = hub.model_settings(profile, endpoint, store.resolve())
        with Progress(plan.cases, quiet=quiet) as progress:
            Supervisor(plan, folder, profile, models, environment(description), progress).run()
    ingest(place, folder)
    return place, run_id


@contextlib.contextmanager
def _endpoint(repo_id: str, store: Path, hub_name: str | None) -> Iterator[str]:
    name = hub_name or os.environ.get("HF_ENDPOINT")
    if name is None:
        name = EMBEDDED_HUB if (hub.embedded(store) / repo_id).is_dir() else DEFAULT_HUB
    with hub.serve(name, store) as endpoint:
        yield endpoint
