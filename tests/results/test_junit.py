"""JUnit XML: well-formed whatever the strings hold, red exactly where the gate is, and bounded."""

from __future__ import annotations

import io
import tracemalloc
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import results
from results import junit
from results.ingest import ingest
from results.junit import BODY, MESSAGE, Mark, _case, bounded, element_of, legal, split_id, write_junit
from results.plan import Declared, make_plan
from results.vocabulary import OUTCOMES, Expectation, Outcome, RunState, Stage, Verdict, verdict
from tests.results import hurt
from tests.results.factory import (
    COMPLETE_RUN,
    HOSTILE,
    INCOMPLETE_RUN,
    Expected,
    ended,
    opinfo_case,
    started,
    write_run,
)

# What the schema of Jenkins' JUnit plugin allows, which others follow: attributes, and children in order.
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"classname", "name", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message", "type"},
}
REQUIRED = {"testsuite": {"name", "tests"}, "testcase": {"classname", "name"}, "property": {"name", "value"}}
CHILDREN = {
    "testsuites": ("testsuite",),
    "testsuite": ("properties", "testcase"),
    "properties": ("property",),
    "testcase": ("failure", "error", "skipped"),
}
COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def written(store: results.Store, run: str | None = None) -> ET.Element:
    """The parsed file, found to be of JUnit's form and to count itself rightly."""
    stream = io.StringIO()
    write_junit(store, run, stream)
    root = ET.fromstring(stream.getvalue().encode("utf-8"))
    for element in root.iter():
        _check_form(element)
    for suite in root:
        found = Counter(COUNTED[mark.tag] for case in suite.iter("testcase") for mark in case)
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        assert {name: int(suite.attrib[name]) for name in COUNTED.values()} == {
            name: found[name] for name in COUNTED.values()
        }
    for name in ("tests", "failures", "errors"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)
    return root


def _check_form(element: ET.Element) -> None:
    assert set(element.attrib) <= ATTRIBUTES[element.tag], element.attrib
    assert REQUIRED.get(element.tag, set()) <= set(element.attrib)
    order = [CHILDREN.get(element.tag, ()).index(child.tag) for child in element]
    assert order == sorted(order)
    for name in ("time", "tests", "failures", "errors", "skipped"):
        assert float(element.attrib.get(name, 0)) >= 0
    if element.tag == "testcase":
        assert len(element) <= 1


def case_of(root: ET.Element, case_id: str) -> ET.Element:
    classname, name = split_id(case_id)
    (found,) = [
        case
        for case in root.iter("testcase")
        if (case.get("classname"), case.get("name")) == (classname, name)
    ]
    return found


def mark_of(root: ET.Element, case_id: str) -> ET.Element:
    (mark,) = case_of(root, case_id)
    return mark


def test_a_night_is_a_suite_a_suite_and_a_case_a_case(store: results.Store) -> None:
    root, expected = written(store, COMPLETE_RUN), Expected()
    assert {suite.get("name"): int(suite.attrib["tests"]) for suite in root} == {
        "model": expected.models,
        "opinfo": expected.tests,
    }
    ids = {"::".join((case.attrib["classname"], case.attrib["name"])) for case in root.iter("testcase")}
    assert ids == {row["case_id"] for row in store.rows("v_cases", run=COMPLETE_RUN)}
    known = {item.attrib["name"]: item.attrib["value"] for item in root[0].iter("property")}
    head = store.rows("v_runs", run=COMPLETE_RUN)[0]
    assert known["run"] == COMPLETE_RUN
    assert (known["device"], known["plan_hash"], known["complete"]) == ("neuron", head["plan_hash"], "true")
    assert known["environment.torch"] == "2.13.0"
    assert "incomplete" not in known


def test_each_verdict_has_its_element(store: results.Store) -> None:
    root = written(store, COMPLETE_RUN)
    numeric = mark_of(root, "opinfo::op40::forward[float32]")
    assert (numeric.tag, numeric.get("type")) == ("failure", "failed_numeric")
    assert numeric.attrib["message"].startswith("failed_numeric in test: max abs error")
    crash = mark_of(root, f"model::acme/tiny-whisper@{'0' * 40}")
    assert (crash.tag, crash.attrib["message"]) == ("error", "crashed in forward: SIGSEGV")
    raised = mark_of(root, f"model::acme/tiny-t5@{'0' * 40}")
    assert raised.get("type") == "RuntimeError"
    assert "Traceback (most recent call last)" in (raised.text or "")
    known = mark_of(root, "opinfo::op41::forward[int64]")
    assert known.tag == "skipped"
    assert known.attrib["message"].startswith("known failure (no_native_lowering): no integer kernel; ")
    unexpected = mark_of(root, "opinfo::op43::forward[bool]")
    assert (unexpected.tag, unexpected.get("type")) == ("failure", "unexpected_pass")
    assert mark_of(root, "opinfo::op44::forward[bool]").tag == "skipped"
    assert mark_of(root, "opinfo::op46::forward[bool]").tag == "skipped"
    infra = mark_of(root, f"model::acme/gone@{'0' * 40}")
    assert (infra.tag, infra.get("type")) == ("error", "HfHubHTTPError")
    assert len(case_of(root, "opinfo::op01::forward[bool]")) == 0


def test_an_incomplete_run_says_which_cases_it_lacks_and_why(store: results.Store) -> None:
    root = written(store, INCOMPLETE_RUN)
    known = {item.attrib["name"]: item.attrib["value"] for item in root[0].iter("property")}
    assert known["complete"] == "false"
    assert known["incomplete"].startswith("INCOMPLETE: 3 of 208 cases have no result")
    missing = [mark for mark in root.iter("error") if mark.get("type") == "not_run"]
    assert len(missing) == 3
    assert all("never began; the run ended interrupted: Ctrl-C" in mark.attrib["message"] for mark in missing)


def test_a_flake_names_its_attempts_and_who_disturbs_it(tmp_path: Path) -> None:
    with results.open(hurt.make_hurt_store(tmp_path)) as store:
        root = written(store)
    flake = mark_of(root, hurt.FLAKY.id)
    said = f"flake; by attempt failed_numeric, passed; fails after {hurt.CULPRIT.id}"
    assert (flake.tag, flake.attrib["message"][: len(said)]) == ("skipped", said)
    known = mark_of(root, hurt.KNOWN.id)
    assert known.attrib["message"] == (
        "known failure (sparse): no sparse kernels; https://acme/1; RuntimeError: no"
    )


def test_a_case_is_red_exactly_where_its_verdict_gates(tmp_path: Path) -> None:
    pairs = [(outcome, expectation) for outcome in Outcome for expectation in Expectation]
    cases = [
        opinfo_case(outcome, expectation, Declared(expectation=expectation)) for outcome, expectation in pairs
    ]
    plan = make_plan(run="r", device="neuron", profile="p", cases=cases)
    events = [ended(case, Stage.TEST, outcome) for case, (outcome, _) in zip(cases, pairs, strict=True)]
    ingest(tmp_path, write_run(tmp_path / "run", plan, {"s": [started(plan)], "w": events}))
    with results.open(tmp_path) as store:
        root = written(store)
    gating = (Verdict.REGRESSION, Verdict.UNEXPECTED_PASS, Verdict.INCOMPLETE)
    for case, (outcome, expectation) in zip(cases, pairs, strict=True):
        red = any(mark.tag in ("failure", "error") for mark in case_of(root, case.id))
        assert red == (verdict(outcome, expectation) in gating), case.id


def test_a_run_that_lacks_nothing_but_its_end_is_red_too(tmp_path: Path) -> None:
    folder = hurt.one_case_store(
        tmp_path, Outcome.PASSED, Expectation.PASS, state=RunState.INTERRUPTED, reason="stopped by SIGTERM"
    )
    with results.open(folder) as store:
        root = written(store)
    assert [suite.get("name") for suite in root] == ["opinfo", "harness"]
    (error,) = root.iter("error")
    assert error.attrib["message"] == "INCOMPLETE: the run ended interrupted: stopped by SIGTERM"


def test_hostile_text_is_text(store: results.Store) -> None:
    root = written(store, COMPLETE_RUN)
    mark = mark_of(root, "opinfo::op42::forward[float32]")
    body = mark.text or ""
    assert body.startswith("[red]boom[/red] | a\\x1b[31mb\\x00c\n\r<script>alert(1)</script> xxx")
    assert len(mark.attrib["message"]) <= MESSAGE
    assert len(body) == len(HOSTILE) + 2 * len("\\x1b") - 2


WILD = st.text(st.characters(exclude_categories=()), max_size=200) | st.text(
    st.sampled_from("\x00\x08\t\n\r\x1b\x7f\x85\ud800\udfff\ufffe\uffff\U0001fffe]]><&\"'a "), max_size=60
)
"""Any code point, lone surrogates included, and many of the troublesome ones."""


@given(WILD, WILD, WILD, WILD)
def test_any_text_comes_back_out_of_a_parser(case: str, message: str, kind: str, body: str) -> None:
    case = f"s::{case}"
    line = _case(case, float("nan"), Mark("failure", message, kind, body))
    parsed = ET.fromstring(line.encode("utf-8"))
    assert f"{parsed.get('classname')}::{parsed.get('name')}" == legal(case)
    assert parsed.get("time") == "0.000"
    (mark,) = parsed
    assert mark.get("message") == legal(message)
    assert mark.get("type", "") == legal(kind)
    assert (mark.text or "") == legal(body)


@given(st.text(max_size=400), st.integers(120, 300))
def test_a_bounded_text_keeps_its_ends_and_says_what_it_lost(text: str, limit: int) -> None:
    short = bounded(text, limit)
    assert len(short) <= limit
    if len(text) <= limit:
        assert short == text
    else:
        assert "characters left out" in short
        assert text.startswith(short.partition("\n[... ")[0])
        assert text.endswith(short[-20:])


@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=50))
def test_an_id_is_its_class_and_its_name(rest: str) -> None:
    classname, name = split_id(f"suite::{rest}")
    assert f"{classname}::{name}" == f"suite::{rest}"


def test_a_variant_stays_with_its_test() -> None:
    assert split_id("pytest::a.py::T::test_x[a::b]") == ("pytest::a.py::T", "test_x[a::b]")
    assert split_id("model::org/name@123") == ("model", "org/name@123")


def test_every_outcome_that_gates_is_a_failure_or_an_error() -> None:
    for outcome, rule in OUTCOMES.items():
        if rule.gates:
            assert element_of(Verdict.REGRESSION, outcome) in ("failure", "error")


class Counting(io.TextIOBase):
    """A stream that keeps nothing."""

    size = 0

    def write(self, text: str) -> int:
        self.size += len(text)
        return len(text)


def test_a_large_run_is_written_without_being_held(tmp_path: Path) -> None:
    cases = [opinfo_case(f"op{number:05}") for number in range(4_000)]
    plan = make_plan(run="r", device="neuron", profile="p", cases=cases)
    said = ("x" * 7_000, "y" * 7_000)
    events: list[Any] = [
        ended(case, Stage.TEST, Outcome.FAILED_EXCEPTION, message=said[0], traceback=said[1])
        for case in cases
    ]
    ingest(tmp_path, write_run(tmp_path / "run", plan, {"s": [started(plan)], "w": events}))
    stream = Counting()
    with results.open(tmp_path) as store:
        tracemalloc.start()
        write_junit(store, None, stream)  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert stream.size > 4_000 * (14_000 + MESSAGE)
    assert peak < stream.size / 3, f"{peak} bytes held for {stream.size} characters"
    assert BODY > 14_000


@pytest.mark.parametrize("stretch", [13, 100])
def test_the_file_does_not_depend_on_how_many_cases_are_read_at_a_time(
    store: results.Store, monkeypatch: pytest.MonkeyPatch, stretch: int
) -> None:
    whole, pieces = io.StringIO(), io.StringIO()
    write_junit(store, INCOMPLETE_RUN, whole)
    monkeypatch.setattr(junit, "STRETCH", stretch)
    write_junit(store, INCOMPLETE_RUN, pieces)
    assert pieces.getvalue() == whole.getvalue()
