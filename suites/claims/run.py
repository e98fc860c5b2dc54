"""Checks one claim on a device and says what came of it."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable

from results.events import OpCall
from results.plan import Case
from results.vocabulary import Outcome
from suites.claims.checks import NotApplicableError, NumbersDifferError
from suites.claims.child import check_in_child
from suites.claims.claim import Claim, Subject
from suites.claims.registry import claims
from suites.claims.state import undisturbed
from suites.device import TestedDevice
from suites.result import CaseResult, qualified_name, shortened_traceback


def run_case(case: Case, device: TestedDevice) -> CaseResult:
    """Check the claim that a case names.

    ``unsupported`` if the statement says nothing of this device, ``vacuous`` if it held without an op call
    that was recorded, ``failed_numeric`` if numbers refute it, ``failed_exception`` for whatever else does.
    """
    started = time.perf_counter()
    result = check(claims()[case.spec["claim"]], device)
    return dataclasses.replace(result, seconds=time.perf_counter() - started)


def check(claim: Claim, device: TestedDevice) -> CaseResult:
    """Check a claim; the result's time is left at 0."""
    if reason := claim.scope.why_not(device.name):
        return CaseResult(outcome=Outcome.UNSUPPORTED, seconds=0.0, message=reason)
    with warnings.catch_warnings(), undisturbed():
        warnings.simplefilter("ignore")
        error, calls = _attempt(claim, device)
    if error is not None:
        return _failed(claim, device, error, calls)
    if claim.recorded and not calls:
        message = f"{claim.statement} It held, and no op call was recorded on {device.name}"
        return CaseResult(outcome=Outcome.VACUOUS, seconds=0.0, message=message)
    return CaseResult(outcome=Outcome.PASSED, seconds=0.0, calls=calls)


def _attempt(claim: Claim, device: TestedDevice) -> tuple[Exception | None, tuple[OpCall, ...]]:
    """Run the check; an error of an op that fails late belongs to it, too."""
    subject = Subject(device.name, device.tolerance)
    if claim.fresh is not None:
        return _error_of(lambda: check_in_child(claim, device.name)), ()
    if not claim.recorded:
        return _error_of(lambda: _checked(claim, subject, device)), ()
    with device.record() as recorder:
        error = _error_of(lambda: _checked(claim, subject, device))
    return error, recorder.calls()


def _checked(claim: Claim, subject: Subject, device: TestedDevice) -> None:
    claim.check(subject)
    device.synchronize()


def _error_of(call: Callable[[], None]) -> Exception | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever a claim runs into is what was seen of it
        return error
    return None


def _failed(claim: Claim, device: TestedDevice, error: Exception, calls: tuple[OpCall, ...]) -> CaseResult:
    outcome = _outcome(error, device)
    if outcome is Outcome.UNSUPPORTED:
        return CaseResult(outcome=outcome, seconds=0.0, message=str(error))
    said = str(error) or qualified_name(error)
    return CaseResult(
        outcome=outcome,
        seconds=0.0,
        exception=qualified_name(error),
        message=f"{claim.statement} Seen: {said}",
        traceback=shortened_traceback(error),
        facts={"source": claim.said_by},
        calls=calls,
    )


def _outcome(error: Exception, device: TestedDevice) -> Outcome:
    """What was documented to work and is refused is a failure, not a limit of the device."""
    if isinstance(error, NotApplicableError):
        return Outcome.UNSUPPORTED
    if isinstance(error, NumbersDifferError):
        return Outcome.FAILED_NUMERIC
    seen = device.classify(error)
    return Outcome.FAILED_EXCEPTION if seen is Outcome.UNSUPPORTED else seen
