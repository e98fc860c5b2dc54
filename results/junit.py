"""A run as JUnit XML, the form of test results that CI systems read.

A suite of the run is a ``testsuite``, a case a ``testcase``, written one by one. What is red follows
from verdicts, as the exit status of ``harness nightly --gate`` does: the file holds a ``failure`` or an
``error`` if, and only if, that status is not 0.

============================================================  ====================================
verdict and outcome                                           element
============================================================  ====================================
ok: passed                                                    none
ok: unsupported, skipped_upstream, skipped_backend            ``skipped``
known_failure                                                 ``skipped``, with the declared reason
flake                                                         ``skipped``, with its outcomes by attempt
unexpected_pass                                               ``failure``
regression: failed_numeric, failed_exception, vacuous         ``failure``
regression: crashed, timed_out, out_of_memory, …              ``error``
incomplete: not_run, infra_error                              ``error``
============================================================  ====================================

An incomplete run in which no case shows it (cut short after the last one, or with a log that was
refused) has one more suite, ``harness``, whose only case says so. ``classname::name`` is the case's id.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TextIO
from xml.sax.saxutils import escape, quoteattr

from results.scoreboard import NOT_REPRODUCIBLE, Scoreboard, scoreboard
from results.store import Store
from results.vocabulary import OUTCOMES, Outcome, Verdict

MESSAGE = 2_000
"""Characters of a ``message`` attribute."""

BODY = 20_000
"""Characters of an element's text: a message and its traceback, of which the end says most."""

STRETCH = 20_000
"""Cases whose texts are in memory at a time; each stretch reads the ids of the whole run anew."""

HARNESS_SUITE = "harness"
RUN_CASE = "the run is complete"

_FAILURES = frozenset({Outcome.FAILED_NUMERIC, Outcome.FAILED_EXCEPTION, Outcome.VACUOUS})
"""The test ran and was judged; every other outcome that gates is an ``error``."""

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even as a character reference."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """What a case that did not simply pass has inside its ``testcase``.

    Attributes:
        element: ``failure``, ``error`` or ``skipped``.
        type: the word of the vocabulary, or the exception's type.
    """

    element: str
    message: str
    type: str = ""
    body: str = ""


def write_junit(store: Store, run: str | None, stream: TextIO) -> None:
    """Write a run, the latest if none is named, to a text stream whose encoding is UTF-8.

    Memory does not grow with the number of cases.

    Raises:
        StoreError: the store has no such run.
    """
    board = scoreboard(store, run, gaps=0, failures=0, flakes=0)
    suites = _suites(store, board)
    total = {name: sum(suite[name] for suite in suites) for name in ("tests", "failures", "errors")}
    seconds = math.fsum(_seconds(suite["seconds"]) for suite in suites)
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    stream.write(f"<testsuites{_attributes(name=board.run, **total, time=seconds)}>\n")
    for suite in suites:
        for piece in _suite(store, board, suite):
            stream.write(piece)
    stream.write("</testsuites>\n")


def _suites(store: Store, board: Scoreboard) -> list[dict[str, Any]]:
    """The suites with their counts, which stand before their cases."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in store.query_rows(
        "SELECT kind, suite, verdict, outcome, count(*) AS cases, "
        "sum(seconds) FILTER (isfinite(seconds)) AS seconds FROM v_cases "
        "WHERE run = ? GROUP BY kind, suite, verdict, outcome ORDER BY kind, suite, verdict, outcome",
        [board.run],
    ):
        key = row["kind"], row["suite"]
        empty = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0, "seconds": 0.0}
        suite = found.setdefault(key, {"kind": key[0], "suite": key[1], **empty})
        suite["tests"] += row["cases"]
        suite["seconds"] += _seconds(row["seconds"])
        element = element_of(Verdict(row["verdict"]), Outcome(row["outcome"]))
        if element:
            suite[{"failure": "failures", "error": "errors"}.get(element, element)] += row["cases"]
    suites = list(found.values())
    if not board.planned or not (board.complete or board.verdicts.get(Verdict.INCOMPLETE)):
        counts = {"tests": 1, "failures": 0, "errors": 1, "skipped": 0, "seconds": 0.0}
        suites.append({"kind": "", "suite": HARNESS_SUITE, **counts})
    return suites


def element_of(verdict: Verdict, outcome: Outcome) -> str:
    """The element that a case has inside, ``""`` if it has none; see the module's table."""
    match verdict:
        case Verdict.INCOMPLETE:
            return "error"
        case Verdict.REGRESSION:
            return "failure" if outcome in _FAILURES else "error"
        case Verdict.UNEXPECTED_PASS:
            return "failure"
        case Verdict.OK:
            return "" if outcome is Outcome.PASSED else "skipped"
    return "skipped"


def _suite(store: Store, board: Scoreboard, suite: Mapping[str, Any]) -> Iterator[str]:
    counts = {name: suite[name] for name in ("tests", "failures", "errors", "skipped")}
    when = {} if board.started is None else {"timestamp": _timestamp(board.started)}
    yield f"<testsuite{_attributes(name=suite['suite'], **counts, time=suite['seconds'], **when)}>\n"
    yield "<properties>\n"
    for name, value in _properties(board).items():
        yield f"<property{_attributes(name=name, value=value)}/>\n"
    yield "</properties>\n"
    if suite["kind"]:
        for row in _cases(store, board.run, suite):
            yield _case(row["case_id"], row["seconds"], _mark(row))
    else:
        said = board.banner or "nothing was collected"
        why = Mark("error", said, Verdict.INCOMPLETE, said)
        yield _case(f"{HARNESS_SUITE}::{RUN_CASE}", 0.0, why)
    yield "</testsuite>\n"


def _cases(store: Store, run: str, suite: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The cases of a suite in order, a stretch of them at a time, since sorting holds all texts at once."""
    for first, last in _stretches(store, run, suite):
        yield from store.each_row(
            "WITH c AS (SELECT * FROM v_cases WHERE run = $1 AND kind = $2 AND suite = $3 "
            "AND case_id BETWEEN $4 AND $5), "
            "s AS (SELECT case_id, stage, traceback FROM v_stages "
            "WHERE run = $1 AND case_id BETWEEN $4 AND $5), "
            "f AS (SELECT * FROM v_flakes WHERE run = $1 AND case_id BETWEEN $4 AND $5), "
            "n AS (SELECT * FROM v_not_run WHERE run = $1 AND case_id BETWEEN $4 AND $5) "
            "SELECT c.case_id, c.seconds, c.outcome, c.verdict, c.stage, c.exception, c.message, "
            "c.expectation, c.category, c.reason, c.link, s.traceback, f.outcomes, f.disturbed_by, "
            "f.experiments, n.reason AS missing "
            "FROM c JOIN s USING (case_id, stage) LEFT JOIN f USING (case_id) LEFT JOIN n USING (case_id) "
            "ORDER BY c.case_id",
            [run, suite["kind"], suite["suite"], first, last],
        )


def _stretches(store: Store, run: str, suite: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The first and the last id of every so many cases of a suite."""
    rows = store.query_rows(
        "SELECT min(case_id) AS first, max(case_id) AS last FROM ("
        "SELECT case_id, (row_number() OVER (ORDER BY case_id) - 1) // ? AS stretch "
        "FROM planned WHERE run = ? AND kind = ? AND suite = ?) GROUP BY stretch ORDER BY first",
        [STRETCH, run, suite["kind"], suite["suite"]],
    )
    return [(row["first"], row["last"]) for row in rows]


def _properties(board: Scoreboard) -> dict[str, str]:
    """What a reader of the file alone has to know of the run."""
    return {
        "run": board.run,
        "device": board.device,
        "profile": board.profile,
        "plan_hash": board.plan_hash,
        "harness_version": board.harness_version,
        "state": board.state,
        "complete": "true" if board.complete else "false",
        **({"warning": board.banner} if board.common_failure else {}),
        **({} if board.complete else {"incomplete": board.incompleteness}),
        **{f"environment.{name}": value for name, value in sorted(board.environment.items())},
    }


def _mark(row: Mapping[str, Any]) -> Mark | None:
    verdict, outcome = Verdict(row["verdict"]), Outcome(row["outcome"])
    element = element_of(verdict, outcome)
    if not element:
        return None
    said = _said(row, outcome)
    match verdict:
        case Verdict.KNOWN_FAILURE:
            why = [f"known failure ({row['category'] or 'no category'}): {row['reason']}", row["link"], said]
            return Mark(element, "; ".join(filter(None, why)))
        case Verdict.FLAKE:
            return Mark(element, "; ".join(filter(None, ["flake", *_attempts(row), said])))
        case Verdict.UNEXPECTED_PASS:
            message = f"passed, and was declared to {row['expectation']}: {row['reason']}"
            return Mark(element, message, verdict, row["link"])
        case Verdict.OK:
            return Mark(element, f"{outcome}: {said}")
    body = "\n\n".join(part for part in (row["message"] or said, row["traceback"]) if part)
    return Mark(element, f"{outcome} in {row['stage']}: {said}", row["exception"] or outcome, body)


def _said(row: Mapping[str, Any], outcome: Outcome) -> str:
    said = ": ".join(part for part in (row["exception"], row["message"]) if part)
    return said or row["missing"] or OUTCOMES[outcome].meaning


def _attempts(row: Mapping[str, Any]) -> list[str]:
    """What is known of a flake beyond that it is one."""
    found = [f"by attempt {', '.join(row['outcomes'])}"] if row["outcomes"] else []
    if row["disturbed_by"]:
        found.append(f"fails after {', '.join(row['disturbed_by'])}")
    elif row["experiments"]:
        found.append(f"{NOT_REPRODUCIBLE} in {row['experiments']} experiments")
    return found


def _case(case: str, seconds: float | None, mark: Mark | None) -> str:
    classname, name = split_id(case)
    start = f"<testcase{_attributes(classname=classname, name=name, time=_seconds(seconds))}"
    if mark is None:
        return f"{start}/>\n"
    about: dict[str, str] = {"message": bounded(legal(mark.message), MESSAGE)}
    if mark.type:
        about["type"] = bounded(legal(mark.type), MESSAGE)
    body = _text(bounded(legal(mark.body), BODY))
    return f"{start}><{mark.element}{_attributes(**about)}>{body}</{mark.element}></testcase>\n"


def split_id(case: str) -> tuple[str, str]:
    """A case's id as class and name: at its last ``::`` that does not belong to a variant."""
    stem = case.partition("[")[0]
    at = stem.rfind("::")
    return case[:at], case[at + 2 :]


def bounded(text: str, limit: int) -> str:
    """A text of at most ``limit`` characters: a fifth of it head, the rest tail, and a note between."""
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text) - limit} or more characters left out ...]\n"
    head = (limit - len(note)) // 5
    return text[:head] + note + text[len(text) - (limit - len(note) - head) :]


def legal(text: str) -> str:
    """A text in which what XML cannot hold is written as Python would write it: ``\\x1b``, ``\\ud800``."""
    return _ILLEGAL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _text(text: str) -> str:
    # A parser would make a line feed of a bare carriage return.
    return escape(text, {"\r": "&#13;"})


def _attributes(**values: Any) -> str:
    return "".join(f" {name}={quoteattr(legal(_value(value)))}" for name, value in values.items())


def _value(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _seconds(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) and value > 0 else 0.0


def _timestamp(time: datetime.datetime) -> str:
    """UTC, as in the store; JUnit's times have no zone."""
    return time.replace(microsecond=0, tzinfo=None).isoformat()
