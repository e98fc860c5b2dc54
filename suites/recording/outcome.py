"""Folds the reports that pytest makes of one test into one ``Ended`` event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from results.events import Ended
from results.vocabulary import UNCATEGORISED, Outcome, Stage
from suites.recording.skipping import ATTRIBUTE
from suites.result import qualified_name, shortened_traceback

_OUT_OF_MEMORY = ("MemoryError", "torch.OutOfMemoryError")
_MESSAGE_CHARACTERS = 2000
TRACEBACK_CHARACTERS = 20_000


class TestRecord:
    """One test as it runs: what it raised and what pytest reported of it."""

    __test__ = False

    def __init__(self, case: str, attempt: int, root: Path) -> None:
        self.case = case
        self.attempt = attempt
        self.reports: list[pytest.TestReport] = []
        self._raised: dict[str, BaseException] = {}
        self.root = str(root)
        self._skips: list[tuple[pytest.TestReport, dict[str, str]]] = []

    def raised(self, phase: str, error: BaseException) -> None:
        """Note the exception of a phase, while it is at hand."""
        self._raised.setdefault(phase, error)

    def skipped(self, report: pytest.TestReport, facts: dict[str, str]) -> None:
        """Note why a report says skipped."""
        self._skips.append((report, facts))

    def ended(self) -> Ended:
        """The event.

        A failure in any phase decides, the first one where there are several; then a skip.
        A test that failed as its ``xfail`` says counts neither as a pass nor as a failure:
        ``skipped_upstream``, with the mark's reason. One that passed in spite of it has passed,
        unless the mark is strict, which pytest reports as a failure.
        """
        failed = [report for report in self.reports if report.failed]
        # A skipped subtest does not make its test a skipped one.
        skipped = [report for report in self.reports if report.skipped and not hasattr(report, "context")]
        if failed:
            return self._failed(failed[0])
        if skipped:
            return self._skipped(skipped[0])
        if not self.reports:
            message = "pytest reported nothing of it; a plugin may have run it in its stead"
            return self._event(Outcome.NOT_RUN, message=message)
        unexpected = [str(r.wasxfail) for r in self.reports if getattr(r, "wasxfail", None) is not None]
        facts = {"xpass": unexpected[0]} if unexpected else {}
        if inner := sum(report.skipped for report in self.reports):
            facts["subtests_skipped"] = str(inner)
        return self._event(Outcome.PASSED, facts=facts)

    def _failed(self, report: pytest.TestReport) -> Ended:
        error = self._raised.get(report.when or "")
        name = qualified_name(error) if error else ""
        outcome = Outcome.OUT_OF_MEMORY if name in _OUT_OF_MEMORY else Outcome.FAILED_EXCEPTION
        text = str(error) if error else report.longreprtext
        return self._event(
            outcome,
            exception=name,
            message=(text or name)[:_MESSAGE_CHARACTERS],
            traceback=shortened_traceback(error) if error else middle_out(report.longreprtext),
            facts={"phase": str(report.when)},
        )

    def _skipped(self, report: pytest.TestReport) -> Ended:
        found = next((facts for one, facts in self._skips if one is report), {})
        facts = {"reason": report.longreprtext[:_MESSAGE_CHARACTERS], "category": UNCATEGORISED} | found
        facts["phase"] = str(report.when)
        return self._event(Outcome.SKIPPED_UPSTREAM, message=facts["reason"], facts=facts)

    def _event(
        self,
        outcome: Outcome,
        *,
        exception: str = "",
        message: str = "",
        traceback: str = "",
        facts: dict[str, str] | None = None,
    ) -> Ended:
        return Ended(
            case=self.case,
            attempt=self.attempt,
            stage=Stage.TEST,
            outcome=outcome,
            seconds=sum(report.duration for report in self.reports),
            exception=exception,
            message=message,
            traceback=traceback,
            facts=facts or {},
        )


def middle_out(text: str) -> str:
    """A long text without its middle."""
    if len(text) <= TRACEBACK_CHARACTERS:
        return text
    half = TRACEBACK_CHARACTERS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def collection_ended(case: str, reports: Sequence[pytest.CollectReport], attempt: int = 1) -> Ended:
    """The event for a file or class that was skipped or failed while it was collected."""
    report = next((report for report in reports if report.failed), reports[0])
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        found: dict[str, str] = getattr(report, ATTRIBUTE, {})
        facts = {"reason": reason.removeprefix("Skipped: "), "category": UNCATEGORISED} | found
        facts["phase"] = "collect"
        outcome, message, trace = Outcome.SKIPPED_UPSTREAM, facts["reason"], ""
    else:
        text = report.longreprtext
        last = next((line for line in reversed(text.splitlines()) if line.startswith("E ")), text)
        facts = {"phase": "collect"}
        outcome, message, trace = Outcome.COLLECTION_ERROR, last.removeprefix("E ").strip(), middle_out(text)
    return ended_without_running(
        case, attempt, outcome, message[:_MESSAGE_CHARACTERS], traceback=trace, facts=facts
    )


def ended_without_running(
    case: str,
    attempt: int,
    outcome: Outcome,
    message: str,
    *,
    traceback: str = "",
    facts: Mapping[str, str] | None = None,
) -> Ended:
    """The event for a test whose function was never called."""
    return Ended(
        case=case,
        attempt=attempt,
        stage=Stage.TEST,
        outcome=outcome,
        seconds=0.0,
        message=message,
        traceback=traceback,
        facts=facts or {},
    )
