"""Whether members of a class really do the same: a sample of them is run for itself, and compared."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness import hub
from harness.class_planning import model_case, place_all, read_entries, select
from harness.errors import InfrastructureError, NothingCollectedError
from harness.nightly import Say, Setup, execute, usable_device
from harness.planning import new_run_id
from harness.profiles import Profile
from harness.sites import site
from model_zoo.classes import Placed
from results.layout import CACHE_DIR
from results.plan import Case, make_plan
from results.store import Store, open_store
from results.vocabulary import RunState

Op = tuple[str, str, str, str]
"""Stage, overload that was called, kernel that ran, dtype."""


@dataclasses.dataclass(frozen=True, slots=True)
class Agreement:
    """A member beside the model that stands for its class.

    Attributes:
        outcomes: stages whose outcomes differ, each with both; empty if none does.
        ops: op calls whose counts differ, each with both counts (device, fallback).
        compared: op calls that either of them made; with none, nothing was compared.
    """

    representative: str
    member: str
    architecture: str
    outcomes: tuple[str, ...]
    ops: tuple[str, ...]
    compared: int

    @property
    def agrees(self) -> bool:
        """Whether no difference was found, of something."""
        return not (self.outcomes or self.ops) and self.compared > 0


def verify_classes(
    profile: Profile, store: Path, sample: int, *, say: Say = lambda _: None, quiet: bool = True
) -> list[Agreement]:
    """Run some members, drawn by the profile's seed, and their representatives; compare them.

    Results go to a store of their own below the given one, so that they never stand among nights.

    Raises:
        NothingCollectedError: no model of the catalog is told from another.
        HarnessError: the catalog, the hub or the device cannot be used.
    """
    store = store.resolve()
    own_store = store / CACHE_DIR / "verify"
    entries = select(read_entries(Path(profile.catalog)), profile.model_filter, profile.models)
    with site(profile) as place, hub.serve_for(profile, store, place.host) as endpoint:
        description = usable_device(place, profile.device)
        pairs = _drawn(place_all(entries, endpoint, store, profile.always_run, say), sample, profile.seed)
        cases = {case.id: case for pair in pairs for case in pair}
        plan = make_plan(
            run=new_run_id(own_store, profile.device),
            device=profile.device,
            profile="verify",
            cases=list(cases.values()),
            settings=dataclasses.replace(profile, name="verify").settings(),
        )
        models = hub.model_settings(profile, endpoint, store, place.host)
        done = execute(plan, Setup(description, profile, own_store, models, place, quiet))
    if done.state is not RunState.COMPLETE:
        raise InfrastructureError(f"the members came to no end: {done.reason}; nothing was compared")
    with open_store(own_store) as reader:
        return [_compared(reader, done.id, *pair) for pair in pairs]


def _drawn(placed: Sequence[Placed], sample: int, seed: int) -> list[tuple[Case, Case]]:
    """Pairs of a representative and a member, each of another class as far as there are so many."""
    members = [one for one in placed if one.representative is not None]
    if not members:
        raise NothingCollectedError("no model of the catalog is told from another; nothing to verify")
    draw = random.Random(seed)
    draw.shuffle(members)
    turn: dict[str, int] = {}
    ranked = []
    for one in members:
        turn[one.key] = turn.get(one.key, 0) + 1
        ranked.append((turn[one.key], one))
    chosen = [one for _, one in sorted(ranked, key=lambda item: item[0])[:sample]]
    return [(model_case(one.representative), model_case(one.entry)) for one in chosen if one.representative]


def _compared(store: Store, run: str, representative: Case, member: Case) -> Agreement:
    one, two = (_stages(store, run, case) for case in (representative, member))
    outcomes = [f"{stage}: {one[stage]}, {two[stage]}" for stage in one if one[stage] != two[stage]]
    first, second = (_ops(store, run, case) for case in (representative, member))
    ops = [
        f"{op[0]} {op[1]} {op[3]}: {first.get(op, (0, 0))}, {second.get(op, (0, 0))}"
        for op in sorted(first.keys() | second.keys())
        if first.get(op) != second.get(op)
    ]
    return Agreement(
        representative=str(representative.spec["repo_id"]),
        member=str(member.spec["repo_id"]),
        architecture=str(member.spec["architecture"]),
        outcomes=tuple(outcomes),
        ops=tuple(ops),
        compared=len(first.keys() | second.keys()),
    )


def _stages(store: Store, run: str, case: Case) -> dict[str, str]:
    rows = store.query_rows(
        "SELECT stage, outcome FROM v_stages WHERE run = ? AND case_id = ? ORDER BY ordinal", [run, case.id]
    )
    return {row["stage"]: row["outcome"] for row in rows}


def _ops(store: Store, run: str, case: Case) -> Mapping[Op, tuple[int, int]]:
    rows = store.query_rows(
        "SELECT stage, called, executed, dtype, device_calls, fallback_calls FROM v_op_calls "
        "WHERE run = ? AND case_id = ?",
        [run, case.id],
    )
    return {
        (row["stage"], row["called"], row["executed"], row["dtype"]): (
            row["device_calls"],
            row["fallback_calls"],
        )
        for row in rows
    }
