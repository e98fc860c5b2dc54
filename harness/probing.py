"""One model, now: will it run on this device, and what would it fall back for?"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

from harness import hub
from harness.errors import InfrastructureError, UsageError
from harness.local_models import local_case
from harness.nightly import Run, Setup, execute, usable_device
from harness.planning import model_case, new_run_id
from harness.profiles import EMBEDDED_HUB, Profile
from harness.sandbox import allowed
from harness.sites import site
from model_zoo.catalog import CatalogError, lookup
from results.layout import CACHE_DIR
from results.plan import Case, make_plan

DEFAULT_HUB = "https://huggingface.co"


def probe(model: str, profile: Profile, store: Path, *, hub_name: str | None, quiet: bool) -> Run:
    """Run one model through its stages.

    Results go to a store of their own below the given one, so that a probe never stands among nights.

    Args:
        model: ``org/name`` or ``org/name@revision``, a folder with a model, or a Python file that makes one.
        hub_name: where from; by default ``HF_ENDPOINT``, else the embedded mirror where it has the
            model, else the real Hub.

    Returns:
        The run, in a store of its own.

    Raises:
        UsageError: the hub has no such model, or there is no such file or folder.
        InfrastructureError: the hub does not answer.
    """
    case = local_case(model)
    repo_id = model.partition("@")[0]
    if not repo_id or repo_id.startswith("-"):
        raise UsageError(f"{model!r} is not a model id; give org/name or org/name@revision")
    store = store.resolve()
    own_store = store / CACHE_DIR / "probe"
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(site(profile))
        description = usable_device(place, profile.device)
        endpoint = "" if case else stack.enter_context(_endpoint(repo_id, store, hub_name, place.host))
        case = case or allowed(_case_of_hub(model, endpoint), profile.allow_remote_code)
        plan = make_plan(
            run=new_run_id(own_store, profile.device),
            device=profile.device,
            profile="probe",
            cases=[case],
            settings=dataclasses.replace(profile, name="probe").settings(),
        )
        models = hub.model_settings(profile, endpoint, store, place.host)
        return execute(plan, Setup(description, profile, own_store, models, place, quiet))


def _case_of_hub(model: str, endpoint: str) -> Case:
    repo_id, _, revision = model.partition("@")
    try:
        return model_case(lookup(endpoint, repo_id, revision or None))
    except CatalogError as error:
        raise UsageError(f"{endpoint} has no model {model!r}: {error}") from error
    except OSError as error:
        raise InfrastructureError(f"{endpoint} could not be asked for {model!r}: {error}") from error


@contextlib.contextmanager
def _endpoint(repo_id: str, store: Path, hub_name: str | None, host: str) -> Iterator[str]:
    name = hub_name or os.environ.get("HF_ENDPOINT")
    if name is None:
        name = EMBEDDED_HUB if (hub.embedded(store) / repo_id).is_dir() else DEFAULT_HUB
    with hub.serve(name, store, host) as endpoint:
        yield endpoint
