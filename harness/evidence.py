"""Cases of a plan that do not run: models that another stands for, and those that nothing changed for.

What becomes of them is written as event logs of their own, so that a store can be rebuilt from logs alone.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from results.events import Ended, Event, Record, encode, read_log
from results.plan import EVENTS_DIR, Case, load_plan
from results.vocabulary import Evidence, Outcome, Stage

CLASS = "class"
"""Key of a model's spec: its class."""

REPRESENTED_BY = "represented_by"
"""Key of a model's spec: id of the case that runs for its class."""

CACHED_FROM = "cached_from"
"""Key of a model's spec: the run whose result is taken."""

MEMBERS_LOG = "members"

Ends = Mapping[Stage, Ended]


def runs(case: Case) -> bool:
    """Whether a case is run, rather than told from another."""
    return not (REPRESENTED_BY in case.spec or CACHED_FROM in case.spec)


def evidence_of(case: Case) -> Evidence:
    """How the result of a planned case will be come by."""
    if REPRESENTED_BY in case.spec:
        return Evidence.REPRESENTATIVE
    return Evidence.CACHED if CACHED_FROM in case.spec else Evidence.RAN


def settle_members(folder: Path) -> int:
    """Write what became of the models that others stood for, once those have their results; how many.

    A model whose representative has no result gets none. Written whole or not at all, and only once.
    """
    members = [case for case in load_plan(folder).cases if REPRESENTED_BY in case.spec]
    log = folder / EVENTS_DIR / f"{MEMBERS_LOG}.jsonl"
    if not members or log.exists():
        return 0
    found = _results(folder, {str(case.spec[REPRESENTED_BY]) for case in members})
    settled = [case for case in members if found.get(str(case.spec[REPRESENTED_BY]))]
    write_log(log, (end for case in settled for end in _ends(case, found)))
    return len(settled)


def _ends(member: Case, found: Mapping[str, Ends]) -> Iterator[Ended]:
    """The stages of a member: its header stands for fetching and loading that passed; the rest is copied."""
    representative = str(member.spec[REPRESENTED_BY])
    for end in found[representative].values():
        by_header = end.stage in (Stage.FETCH, Stage.LOAD) and end.outcome is Outcome.PASSED
        yield dataclasses.replace(
            end,
            case=member.id,
            attempt=1,
            seconds=0.0,
            traceback="",
            metrics={},
            facts={name: text for name, text in end.facts.items() if name != "worker"},
            evidence=Evidence.HEADER if by_header else Evidence.REPRESENTATIVE,
            evidence_from=representative,
        )


def _results(folder: Path, wanted: set[str]) -> dict[str, Ends]:
    """The last attempt of some cases, by stage in order."""
    found: dict[str, dict[int, dict[Stage, Ended]]] = {}
    for log in sorted((folder / EVENTS_DIR).glob("*.jsonl")):
        for record in read_log(log):
            event = record.event
            if isinstance(event, Ended) and event.case in wanted:
                found.setdefault(event.case, {}).setdefault(event.attempt, {})[event.stage] = event
    order = list(Stage)
    return {
        case: dict(sorted(attempts[max(attempts)].items(), key=lambda item: order.index(item[0])))
        for case, attempts in found.items()
    }


def write_log(log: Path, events: Iterable[Event]) -> None:
    """Write an event log, whole or not at all."""
    log.parent.mkdir(parents=True, exist_ok=True)
    temporary = log.with_suffix(".tmp")
    now = time.time()
    with temporary.open("w", encoding="ascii") as file:
        for seq, event in enumerate(events):
            file.write(encode(Record(seq, now, event)) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(log)


def marked(case: Case, **more: Any) -> Case:
    """A case with more in its spec."""
    return dataclasses.replace(case, spec={**case.spec, **more})
