"""What pytest knows of a skip, as evidence for the ledger; gathered while the exception is at hand."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from types import FrameType
from typing import Any

import pytest

from suites.result import qualified_name
from suites.skips.engine import categorise
from suites.skips.evidence import Evidence, Origin
from suites.skips.frames import Passed, expected_error, named_by, portable
from suites.skips.rules import load_rules
from suites.skips.source import (
    Decorator,
    called_mark,
    enclosing_condition,
    module_mark,
    skipping_decorator,
    true_names,
)
from suites.skips.wrapping import SKIPPED, expected_failure_mark, own_code, skip_mark

ATTRIBUTE = "harness_skip"
"""Of a report of a collection: the facts of its skip. They travel with it from an xdist worker."""

_BY_MARK = "_pytest.skipping:pytest_runtest_setup"
_SET_UPS = frozenset({"setUp", "asyncSetUp", "setUpClass", "setUpModule", "tearDown", "setup_method"})
_EXPECTED = "expected to fail"
_MESSAGE_CHARACTERS = 2000

ExceptionInfo = pytest.ExceptionInfo[BaseException]


def facts_of(evidence: Evidence) -> dict[str, str]:
    """The facts of an event: the evidence, the category and what it was recognised by."""
    verdict = categorise(evidence)
    found = {**evidence.facts(), "category": verdict.category}
    return {**found, "rule": verdict.rule} if verdict.rule else found


def explain(
    item: pytest.Item, report: pytest.TestReport, infos: tuple[ExceptionInfo | None, ...], root: str
) -> dict[str, str]:
    """The facts of a test's skip, or of its expected failure.

    Args:
        infos: what the phase raised, as seen before pytest made its report and after: pytest replaces an
            exception of unittest by one of its own, and gets some only while it makes the report.
    """
    errors = [_original(info.value) for info in infos if info is not None]
    error = next((e for e in errors if Passed(e).frames), errors[-1] if errors else None)
    if getattr(report, "wasxfail", None) is not None and not isinstance(error, pytest.xfail.Exception):
        return _expected(item, report, error, root)
    if error is None:
        return facts_of(Evidence(origin=Origin.RAISED, reason=report.longreprtext[:_MESSAGE_CHARACTERS]))
    passed = Passed(error)
    if isinstance(error, pytest.xfail.Exception) and not passed.frames:
        return _expected(item, report, expected_error(error), root)
    reason = str(error)[:_MESSAGE_CHARACTERS]
    if passed.frames:
        return facts_of(_raised(item, report.when or "", error, passed, reason, root))
    return facts_of(_marked(item, passed.last_site, reason, root))


def explain_collection(collector: pytest.Collector, report: pytest.CollectReport) -> dict[str, str]:
    """The facts of the skip of a whole file or class, for :data:`ATTRIBUTE` of its report."""
    call = getattr(report, "call", None)
    root = str(collector.config.rootpath)
    if call is None or call.excinfo is None:
        return facts_of(Evidence(origin=Origin.RAISED, reason=report.longreprtext[:_MESSAGE_CHARACTERS]))
    error = _original(call.excinfo.value)
    passed = Passed(error)
    own = any(frame.f_code.co_filename == str(collector.path) for frame, _ in passed.frames)
    evidence = Evidence(
        origin=Origin.OWN_CODE if own else Origin.RAISED,
        reason=str(error)[:_MESSAGE_CHARACTERS],
        frames=passed.sites,
        condition=_condition_around(passed),
        location=passed.location(root),
    )
    return facts_of(evidence)


def _original(error: BaseException) -> BaseException:
    """unittest's own exception, which pytest raises its ``Skipped`` in the handling of."""
    context = error.__context__
    if isinstance(error, pytest.skip.Exception) and isinstance(context, unittest.SkipTest):
        return context
    return error


def _raised(
    item: pytest.Item, phase: str, error: BaseException, passed: Passed, reason: str, root: str
) -> Evidence:
    rules = load_rules()
    known = passed.sites[0] in rules.raised or passed.sites[0] in rules.named_by
    origin = Origin.OWN_CODE if _is_own(item, phase, passed) else Origin.RAISED
    if isinstance(error, pytest.xfail.Exception) and origin is Origin.OWN_CODE:
        origin = Origin.EXPECTED_FAILURE
    return Evidence(
        origin=origin,
        reason=reason,
        frames=passed.sites,
        named=named_by(passed.frames, rules.named_by),
        condition=() if known else _condition_around(passed),
        location=passed.location(root),
    )


def _is_own(item: pytest.Item, phase: str, passed: Passed) -> bool:
    """Whether the test's own body, or a set-up in its own file, raised or called what raised."""
    function = getattr(item, "obj", None)
    code = own_code(function) if function is not None else None
    if code is not None and passed.ran([code]):
        return True
    file = str(item.path)
    return any(
        frame.f_code.co_filename == file and (phase == "setup" or frame.f_code.co_name in _SET_UPS)
        for frame, _ in passed.frames
    )


def _condition_around(passed: Passed) -> tuple[str, ...]:
    """Names in the ``if`` around the ``raise``, or around the call that raised."""
    if not passed.frames:
        return ()
    file = passed.frames[0][0].f_code.co_filename
    for frame, line in passed.frames:
        if frame.f_code.co_filename != file:
            continue
        condition = enclosing_condition(frame.f_code.co_filename, line)
        if condition is not None:
            return true_names(condition, _scope(frame))
    return ()


def _scope(frame: FrameType) -> Mapping[str, Any]:
    return {**frame.f_globals, **frame.f_locals}


def _marked(item: pytest.Item, last_site: str, reason: str, root: str) -> Evidence:
    """A skip that nobody raised on the way: a mark of the test, of its class or of what it is made from."""
    function, names = getattr(item, "obj", None), frozenset(load_rules().decorators)
    origin, subjects = Origin.DECORATOR, _classes(item)
    if last_site == _BY_MARK:
        subjects = [*_functions(function), *(getattr(item, "cls", None) or object).__mro__]
        origin = Origin.PARAMETER if _parameter_skips(item) else origin
    elif not subjects and function is not None and (mark := skip_mark(function)) is not None:
        origin, subjects = mark.origin, [mark.innermost]
    found: Decorator | None = None
    if origin is Origin.DECORATOR:
        looked = (skipping_decorator(subject, reason, names) for subject in subjects)
        file = str(item.path)
        found = next(filter(None, looked), None) or module_mark(file, reason) or called_mark(file, reason)
    scope = vars(getattr(item, "module", None)) if getattr(item, "module", None) else {}
    where = item.location[1] or 0
    return Evidence(
        origin=origin,
        reason=reason,
        decorator=found.text if found else "",
        condition=true_names(found.condition, scope) if found and found.condition is not None else (),
        location=f"{portable(str(item.path), root)}:{found.line if found else where + 1}",
    )


def _parameter_skips(item: pytest.Item) -> bool:
    """Whether a ``pytest.param`` of this test carries a skip."""
    marks = getattr(getattr(item, "callspec", None), "marks", ())
    return any(mark.name in ("skip", "skipif") for mark in marks)


def _classes(item: pytest.Item) -> list[Any]:
    """The classes of a test that carry a static skip; unittest asks them before the method."""
    cls = getattr(item, "cls", None)
    if cls is None or not getattr(cls, SKIPPED, False):
        return []
    return [one for one in cls.__mro__ if SKIPPED in vars(one)]


def _functions(function: Any) -> list[Any]:
    """The function that carries a mark, as its file defines it."""
    if function is None:
        return []
    innermost = getattr(function, "__func__", function)
    while (inner := getattr(innermost, "__wrapped__", None)) is not None:
        innermost = inner
    return [innermost]


def _expected(
    item: pytest.Item, report: pytest.TestReport, error: BaseException | None, root: str
) -> dict[str, str]:
    """A failure that was declared: by the test, by a parameter or by the entry it is made from."""
    said = str(report.wasxfail).removeprefix("reason: ")
    function = getattr(item, "obj", None)
    mark = expected_failure_mark(function) if function is not None else None
    origin = mark.origin if mark and mark.origin is not Origin.DECORATOR else Origin.EXPECTED_FAILURE
    evidence = Evidence(
        origin=origin,
        reason=f"{_EXPECTED}: {said}" if said else _EXPECTED,
        location=f"{portable(str(item.path), root)}:{(item.location[1] or 0) + 1}",
    )
    facts = {**facts_of(evidence), "xfail": said}
    if error is not None:
        facts["raised"] = f"{qualified_name(error)}: {error}"[:_MESSAGE_CHARACTERS]
    return facts
