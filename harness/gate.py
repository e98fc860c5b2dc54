"""The gate: what a run's verdicts say to a CI job, as an exit status and the sentence that explains it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import ExitCode
from results.collected import Drop, drops
from results.common_failure import common_failure
from results.store import Store
from results.vocabulary import RunState, Verdict

GATING = (Verdict.REGRESSION, Verdict.UNEXPECTED_PASS)
"""Verdicts that fail a complete run: something got worse, or an expectation is out of date."""


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What a run comes to.

    Attributes:
        sentence: why the code is not 0, ``""`` if it is.
        resumable: whether going on with the run may change it.
    """

    code: ExitCode
    sentence: str = ""
    resumable: bool = False

    def enforced(self, gate: bool) -> ExitCode:
        """The exit status: without a gate, regressions are reported and fail nothing."""
        return ExitCode.OK if self.code is ExitCode.REGRESSIONS and not gate else self.code


def judge(store: Store, run: str) -> Judgement:
    """Judge a run by what the store says of it.

    A run in which nearly everything fails in one way says that the machine or the device is not well, and
    nothing of the cases. An incomplete run is not judged by its regressions: what is missing may be one, or
    explain one.

    Raises:
        StoreError: the store has no such run.
    """
    run = store.resolve_run(run)
    state = store.rows("v_completeness", run=run)[0]
    verdicts = {row["verdict"]: row["cases"] for row in store.rows("v_verdicts", run=run)}
    if state["state"] == RunState.DEVICE_DOWN:
        return Judgement(ExitCode.DEVICE, f"the device is down: {state['reason']}", resumable=True)
    if not state["planned"]:
        return Judgement(ExitCode.NOTHING_COLLECTED, "it planned no case")
    unfinished = state["state"] != RunState.COMPLETE or state["missing"] > 0
    common = common_failure(store, run)
    if common:
        return Judgement(ExitCode.DEVICE, common.sentence, resumable=unfinished)
    if not state["complete"] or verdicts.get(Verdict.INCOMPLETE):
        return Judgement(ExitCode.INCOMPLETE, _why_incomplete(state, verdicts), resumable=unfinished)
    found = [f"{verdicts[word]} {word}" for word in GATING if verdicts.get(word)]
    why = [f"{' and '.join(found)} of {state['planned']} cases"] if found else []
    why += [_shrunk(drops(store, run))]
    sentence = "; ".join(filter(None, why))
    return Judgement(ExitCode.REGRESSIONS, sentence) if sentence else Judgement(ExitCode.OK)


def _shrunk(found: Sequence[Drop]) -> str:
    if not found:
        return ""
    worst = max(found, key=lambda drop: drop.before - drop.now)
    return (
        f"{len(found)} test file(s) with fewer tests than before, first {worst.file}: {worst.now} instead of "
        f"{worst.before} (run {worst.before_run}); `harness suites accept` if that is right"
    )


def _why_incomplete(state: Mapping[str, Any], verdicts: Mapping[str, int]) -> str:
    why = []
    if verdicts.get(Verdict.INCOMPLETE):
        why.append(f"{verdicts[Verdict.INCOMPLETE]} of {state['planned']} cases could not be judged")
    if state["refused_logs"]:
        why.append(f"{state['refused_logs']} event log(s) refused, first {state['refused_why']}")
    if state["state"] == RunState.RUNNING:
        why.append("it has not ended: it is going on, or its supervisor was killed")
    elif state["state"] != RunState.COMPLETE:
        why.append(f"it ended {state['state']}: {state['reason']}" if state["reason"] else "it was cut short")
    return "; ".join(why)
