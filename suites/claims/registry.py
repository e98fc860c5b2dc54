"""All claims, topic by topic, and the cases that they are."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from results.plan import Case
from results.vocabulary import CaseKind
from suites.claims import SUITE
from suites.claims.claim import Claim
from suites.claims.topics import (
    compiling,
    distributed,
    dtypes,
    environment,
    execution,
    modelling,
    names,
    profiling,
    randomness,
    refusals,
    streams,
)

TOPICS = (
    names.topic,
    environment.topic,
    execution.topic,
    streams.topic,
    compiling.topic,
    dtypes.topic,
    randomness.topic,
    modelling.topic,
    profiling.topic,
    distributed.topic,
    refusals.topic,
)


@functools.cache
def claims() -> Mapping[str, Claim]:
    """Every claim by its key.

    Raises:
        ValueError: two claims have one key.
    """
    found: dict[str, Claim] = {}
    for topic in TOPICS:
        for claim in topic.claims:
            if claim.key in found:
                raise ValueError(f"two claims are called {claim.key}; names must be unique in a topic")
            found[claim.key] = claim
    return found


def cases() -> list[Case]:
    """A case for every claim, by id."""
    return sorted((case_of(claim) for claim in claims().values()), key=lambda case: case.id)


def case_of(claim: Claim) -> Case:
    """The case of a claim; its spec says what a report of it needs."""
    spec = {"claim": claim.key, "statement": claim.statement, "source": claim.said_by}
    return Case(id=f"{SUITE}::{claim.key}", kind=CaseKind.CLAIM, spec=spec)
