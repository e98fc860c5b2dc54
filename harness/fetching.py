"""The stage ``fetch`` of a model: what is asked of the hub, and what a refusal means for the case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.job import ModelSettings
from model_zoo.fetch import FetchError, FetchReason, fetch
from model_zoo.load import LoadError, LoadReason, check_config
from results.vocabulary import Category, Outcome

REASON = "reason"
"""Fact of a model that was not run: which kind of failure it is, ``FetchReason`` or ``LoadReason``."""


@dataclass(frozen=True, slots=True)
class Deputy:
    """Fetches for a process that has no network; see :mod:`harness.sandbox`.

    Attributes:
        orders: takes the number of a case, gives its folder or (reason, sentence).
        refusal: why this process could not be locked in, ``""`` if it is.
    """

    orders: Connection
    refusal: str

    def fetch(self, number: int) -> Path:
        """The folder of a case's repository.

        Raises:
            FetchError: it cannot be had.
            LoadError: its code may not run here.
        """
        if self.refusal:
            raise LoadError(LoadReason.NEEDS_REMOTE_CODE, f"code of a repository is not run: {self.refusal}")
        try:
            self.orders.send(number)
            answer = self.orders.recv()
        except (EOFError, OSError) as error:
            raise FetchError(FetchReason.UNEXPECTED, "The process that fetches is gone.") from error
        if isinstance(answer, Path):
            return answer
        reason, sentence = answer
        raise FetchError(FetchReason(reason), sentence)


deputy: Deputy | None = None
"""Set in a process that is locked in."""

NOT_FOR_US = frozenset(
    {
        FetchReason.NOT_FOUND,
        FetchReason.REVISION_NOT_FOUND,
        FetchReason.GATED,
        FetchReason.DISABLED,
        FetchReason.NO_WEIGHTS,
        FetchReason.ADAPTER,
        FetchReason.TOO_LARGE,
        FetchReason.REFUSED,
    }
)
"""Reasons for which a repository cannot be fetched tomorrow either: nothing failed."""


def fetch_model(spec: Mapping[str, Any], settings: ModelSettings, *, ahead: bool = False) -> Path:
    """Fetch the repository of a case at its pinned revision, once it is known that it can be loaded.

    Args:
        ahead: fetch it for somebody else, who will use it; otherwise it is kept until this process ends.

    Raises:
        FetchError: it cannot be had.
        LoadError: it can be had, and this library could not load it.
    """
    if deputy is not None:
        return deputy.fetch(0)  # A model has its process to itself.
    return fetch(
        spec["repo_id"],
        spec["revision"],
        cache_dir=settings.cache,
        endpoint=settings.endpoint,
        max_bytes=settings.max_bytes or None,
        budget=settings.max_cache_bytes,
        check=partial(check_config, task=spec.get("task")),
        hold=not ahead,
        ahead=ahead,
    )


def outcome_of(error: FetchError | LoadError) -> Outcome:
    """The outcome of a model that was not fetched or loaded; none of them counts against the device."""
    if isinstance(error, FetchError):
        return Outcome.SKIPPED_UPSTREAM if error.reason in NOT_FOR_US else Outcome.INFRA_ERROR
    corrupt = error.reason is LoadReason.CORRUPT_WEIGHTS
    return Outcome.INFRA_ERROR if corrupt else Outcome.SKIPPED_UPSTREAM


def category_of(error: FetchError | LoadError) -> Category:
    """Why such a model is skipped, in the words of the ledger."""
    if error.reason is LoadReason.NEEDS_PACKAGE:
        return Category.PYTHON_DEPENDENCY
    return Category.MODEL_UNAVAILABLE
