"""Downloads models ahead of the workers that will run them, in a process of its own.

It only fills the cache: what it cannot fetch is left to the worker, which says why. It follows the order in
which the supervisor hands cases out, a few models ahead, and slows down with the workers.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness import processes
from harness.history import History
from harness.job import ModelSettings
from harness.profiles import EMBEDDED_HUB, LOCAL, Profile
from harness.schedule import batches, declared_skips
from model_zoo.cache import ModelCache, sweep_incomplete
from model_zoo.fetch import FetchError
from model_zoo.packages import FILE
from results.plan import Case
from results.vocabulary import CaseKind

_LOOK_SECONDS = 0.2
_FORGOTTEN_SECONDS = 1800.0
"""A model that no worker came for in this time is not waited for: its case was decided otherwise."""


@contextlib.contextmanager
def prefetching(
    cases: Sequence[Case], profile: Profile, models: ModelSettings, known: History
) -> Iterator[None]:
    """Fetch the models of some cases while the context lasts; what killed downloads left is swept first.

    Nothing is fetched ahead from the mirror of this process, which is as near as the cache, nor for a
    cluster, whose nodes have caches of their own.

    Args:
        known: how long cases take, by which the supervisor orders them.
    """
    order = [
        case
        for batch in batches(declared_skips(cases)[1], profile.rules, known)
        for case in batch
        if case.kind is CaseKind.MODEL
    ]
    if order:
        sweep_incomplete(models.cache)
    if not (profile.prefetch and order) or profile.engine != LOCAL or profile.hub == EMBEDDED_HUB:
        yield
        return
    specs = [case.spec for case in order if FILE not in case.spec]
    process = processes.start(_run, specs, models, profile.prefetch)
    try:
        yield
    finally:
        processes.kill_tree(process)


def _run(specs: Sequence[Mapping[str, Any]], models: ModelSettings, ahead: int) -> None:
    processes.become_helper()
    prefetch(specs, models, ahead)


def prefetch(
    specs: Sequence[Mapping[str, Any]],
    models: ModelSettings,
    ahead: int,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Fetch models in order, at most ``ahead`` that no worker has used yet."""
    from harness.fetching import fetch_model
    from model_zoo.load import LoadError

    cache = ModelCache(models.cache)
    waiting: list[tuple[str, str, float, float]] = []
    for spec in specs:
        repo_id, commit = str(spec["repo_id"]), str(spec["revision"])
        while len(waiting) >= ahead:
            sleep(_LOOK_SECONDS)
            waiting = [entry for entry in waiting if _is_unused(cache, *entry)]
        before = cache.last_use(repo_id, commit)
        try:
            fetch_model(spec, models, ahead=True)
        except (FetchError, LoadError):
            continue  # The worker meets it too, and says why.
        if cache.last_use(repo_id, commit) == before and not cache.is_held(repo_id, commit):
            cache.touch(repo_id, commit)
            waiting.append((repo_id, commit, cache.last_use(repo_id, commit), time.monotonic()))


def _is_unused(cache: ModelCache, repo_id: str, commit: str, touched: float, since: float) -> bool:
    fresh = time.monotonic() - since < _FORGOTTEN_SECONDS
    return fresh and cache.last_use(repo_id, commit) == touched and not cache.is_held(repo_id, commit)
