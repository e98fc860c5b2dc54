"""The plan of a run: every case, fixed and hashed before anything runs.

Reports are made from the plan, so a case without a result is ``not_run`` and never absent.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from results.vocabulary import MODEL_STAGES, CaseKind, Expectation, Outcome, Stage, Verdict, verdict

PLAN_VERSION = 1
PLAN_FILE = "plan.json"
EVENTS_DIR = "events"
OUTPUT_DIR = "output"
EXPERIMENTS_DIR = "experiments"
"""Logs of runs of cases that are no results: what disturbs what was searched there."""

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_MODEL_ID = re.compile(r"model::[^\s@]+@[^\s@]+")
_TEST_ID = re.compile(r"[^:\s\[]+::[^\x00-\x1f]+")


class PlanError(ValueError):
    """A plan that cannot be used; says what is wrong with it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What was declared of a case: the expectation and, where it is not ``pass``, why.

    Attributes:
        outcome, stage: what a failure has to be and where, to be the known one; ``""`` for any.
    """

    expectation: Expectation = Expectation.PASS
    category: str = ""
    reason: str = ""
    link: str = ""
    owner: str = ""
    outcome: str = ""
    stage: str = ""

    def verdict(self, outcome: Outcome, stage: Stage | str) -> Verdict:
        """The verdict of a result that was decided in a stage."""
        as_declared = self.outcome in ("", outcome) and self.stage in ("", stage)
        return verdict(outcome, self.expectation, as_declared=as_declared)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One unit of work.

    Attributes:
        id: ``suite::file::class::test[variant]`` or ``model::org/name@revision``; names no device.
        kind: what runs it.
        spec: what its runner needs, JSON values only; for a model also what views filter by
            (``task``, ``architecture``, ``parameters``, ``downloads``, ``library``).
    """

    id: str
    kind: CaseKind
    spec: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    declared: Declared = dataclasses.field(default_factory=Declared)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages it goes through, in order."""
        return MODEL_STAGES if self.kind is CaseKind.MODEL else (Stage.TEST,)

    @property
    def suite(self) -> str:
        """The first part of the id: ``model`` or the name of the suite."""
        return self.id.split("::", 1)[0]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cases of a run, sorted by id.

    Attributes:
        device: torch device type the run drives.
        profile: name of the profile it was made from.
        settings: the profile's fields as run, after overrides.
        hash: SHA-256 over device and cases: equal for two runs that did the same work.
    """

    run: str
    device: str
    profile: str
    cases: tuple[Case, ...]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hash: str = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        # The run's id names its folder, and a plan may come from elsewhere.
        if not _RUN_ID.fullmatch(self.run):
            raise PlanError(f"{self.run!r} cannot name a run; use letters, digits and . _ + -")
        object.__setattr__(self, "hash", _hash(self.device, self.cases))

    def save(self, folder: Path) -> None:
        """Write ``plan.json`` into a run's folder, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        head = {
            "version": PLAN_VERSION,
            "run": self.run,
            "device": self.device,
            "profile": self.profile,
            "settings": dict(self.settings),
            "hash": self.hash,
        }
        temporary = folder / f"{PLAN_FILE}.tmp"
        with temporary.open("w") as file:
            file.write(json.dumps(head, indent=1).removesuffix("\n}") + ',\n "cases": [')
            for index, case in enumerate(self.cases):
                file.write(("," if index else "") + "\n  " + _LINE.encode(_case_json(case)))
            file.write("\n ]\n}\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / PLAN_FILE)


def make_plan(
    *, run: str, device: str, profile: str, cases: Sequence[Case], settings: Mapping[str, Any] | None = None
) -> Plan:
    """Sort the cases and check them.

    Raises:
        PlanError: there is no case, two have one id, or an id is not of the form above.
    """
    if not cases:
        raise PlanError("nothing was collected; widen the selection")
    ordered = sorted(cases, key=lambda case: case.id)
    for one, two in itertools.pairwise(ordered):
        if one.id == two.id:
            raise PlanError(f"two cases have the id {one.id!r}; ids must be unique")
    for case in ordered:
        pattern = _MODEL_ID if case.kind is CaseKind.MODEL else _TEST_ID
        if not pattern.fullmatch(case.id):
            raise PlanError(f"{case.id!r} is not a valid {case.kind} case id")
    return Plan(run=run, device=device, profile=profile, cases=tuple(ordered), settings=settings or {})


def load_plan(folder: Path) -> Plan:
    """Read ``plan.json`` of a run's folder and check its hash.

    Raises:
        PlanError: it is missing, of a later version, damaged, or was changed after it was written.
    """
    path = folder / PLAN_FILE
    try:
        body = json.loads(path.read_text(), object_hook=_case_of)
        if body["version"] > PLAN_VERSION:
            raise PlanError(f"{path} was written by a newer harness (version {body['version']})")
        plan = Plan(
            run=body["run"],
            device=body["device"],
            profile=body["profile"],
            settings=body["settings"],
            cases=tuple(_only_cases(body["cases"])),
        )
    except FileNotFoundError:
        raise PlanError(f"{folder} has no {PLAN_FILE}; it is not a run's folder") from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, PlanError):
            raise
        raise PlanError(f"{path} is damaged: {error}") from error
    if plan.hash != body["hash"]:
        raise PlanError(f"{path} was changed after the run began: its hash does not match its cases")
    return plan


_NARROWING = ("outcome", "stage")
"""Fields that came later: written only where they say something, so that the hashes of older plans hold."""

_DECLARED = tuple(field.name for field in dataclasses.fields(Declared) if field.name not in _NARROWING)
_DECLARED_KEYS = frozenset(_DECLARED)
_CASE_KEYS = frozenset(field.name for field in dataclasses.fields(Case))
_LINE = json.JSONEncoder()
_HASHED = json.JSONEncoder(sort_keys=True)


def _hash(device: str, cases: Sequence[Case]) -> str:
    digest = hashlib.sha256(f"[{_HASHED.encode(device)}, [".encode())
    for index, case in enumerate(cases):  # one by one: there may be hundreds of thousands
        digest.update(((", " if index else "") + _HASHED.encode(_case_json(case))).encode())
    digest.update(b"]]")
    return digest.hexdigest()


def _case_json(case: Case) -> dict[str, Any]:
    declared = {name: getattr(case.declared, name) for name in _DECLARED}
    declared |= {name: value for name in _NARROWING if (value := getattr(case.declared, name))}
    return {"id": case.id, "kind": case.kind, "spec": dict(case.spec), "declared": declared}


def _case_of(item: dict[str, Any]) -> Any:
    """A case or what was declared of one, made as it is read: all as dictionaries take thrice the room."""
    if item.keys() == _CASE_KEYS:
        return Case(**item | {"kind": CaseKind(item["kind"])})
    return _declared(**item) if item.keys() - _NARROWING == _DECLARED_KEYS else item


def _only_cases(items: Iterable[Any]) -> Iterator[Case]:
    for item in items:
        if not (isinstance(item, Case) and isinstance(item.declared, Declared)):
            raise ValueError(f"{str(item)[:80]} is not a case")
        yield item


@functools.lru_cache(maxsize=1024)
def _declared(expectation: str, **said: str) -> Declared:
    """What was declared, as one object for all cases of which the same was."""
    return Declared(expectation=Expectation(expectation), **said)
