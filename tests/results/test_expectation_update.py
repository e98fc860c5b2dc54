"""An update from a run leaves nothing unexpected, touches nothing else, and keeps what people wrote."""

from __future__ import annotations

import dataclasses
import datetime
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.expectation_files import entry_text
from results.expectation_update import Result, Setting, Update, edits, work_out
from results.expectations import Entry, declare, read_entries
from results.plan import Case
from results.vocabulary import CaseKind, Category, Expectation, Outcome, Stage, Verdict

TODAY = datetime.date(2026, 11, 30)
FILE = Path("known.toml")
IDS = [f"opinfo::op_db::{op}::forward[{dtype}]" for op in ("add", "cumsum", "sub") for dtype in ("f", "i")]
DECIDED = [o for o in Outcome if o not in (Outcome.NOT_RUN, Outcome.INFRA_ERROR)]


def setting(**fields: object) -> Setting:
    given = {"device": "neuron", "torch": "2.13.0", "today": TODAY, "drop_globs": True}
    return Setting(**(given | fields))  # type: ignore[arg-type]


def result(case: str, outcome: Outcome = Outcome.PASSED, **fields: object) -> Result:
    return Result(case=Case(id=case, kind=CaseKind.OPINFO), outcome=outcome, stage=Stage.TEST, **fields)  # type: ignore[arg-type]


def entry(**fields: object) -> str:
    given = {"expectation": "fail", "category": "numerics", "reason": "known", "added": TODAY}
    conditions = fields.pop("conditions", {})
    return entry_text(given | fields, conditions)  # type: ignore[arg-type]


def updated(text: str, results: list[Result], how: Setting) -> tuple[str, Update]:
    update = work_out(results, read_entries(text, FILE), how)
    found = edits(update, {FILE: text}, FILE)
    return (found[0].new if found else text), update


def verdicts(text: str, results: list[Result], how: Setting) -> dict[str, Verdict]:
    cases = declare([r.case for r in results], read_entries(text, FILE), how.device, how.torch).cases
    by_id = {case.id: case.declared for case in cases}
    return {r.case.id: by_id[r.case.id].verdict(r.outcome, r.stage) for r in results}


entry_texts = st.builds(
    lambda pattern, expectation, outcome, comment: (
        comment
        + entry(
            **({"glob": pattern} if "*" in pattern else {"id": pattern}),
            expectation=expectation,
            outcome=outcome if expectation in ("fail", "flaky") else "",
        )
    ),
    st.sampled_from([*IDS, "opinfo::op_db::add::*", "opinfo::op_db::cumsum::*", "opinfo::op_db::sub::*"]),
    st.sampled_from(["pass", "fail", "skip", "flaky"]),
    st.sampled_from(["", "failed_numeric", "crashed"]),
    st.sampled_from(["", "\n", "# why\n", "\n# apart\n\n"]),
)
files = st.lists(entry_texts, max_size=7, unique_by=lambda text: text[text.index("[[") :].splitlines()[1])
runs = st.lists(
    st.builds(
        result,
        st.sampled_from(IDS),
        st.sampled_from(DECIDED),
        message=st.text(max_size=5),
        signature=st.sampled_from(["", "0123456789abcdef"]),
        passed_before=st.booleans(),
        flaked=st.booleans(),
    ),
    min_size=1,
    unique_by=lambda r: r.case.id,
)


@given(files, runs)
def test_after_an_update_the_same_results_are_expected(parts: list[str], results: list[Result]) -> None:
    text = "".join(parts)
    how = setting(accept_regressions=True, category=Category.HARNESS_GAP)
    new, update = updated(text, results, how)
    unexpected = (Verdict.REGRESSION, Verdict.UNEXPECTED_PASS)
    left = {case for case, verdict in verdicts(new, results, how).items() if verdict in unexpected}
    assert left == set(update.flakes)
    assert update.regressions == update.uncategorised == update.conflicts == update.idle_globs == []
    assert updated(new, results, how)[0] == new, "a second update has nothing to do"


@given(files, runs)
def test_without_leave_no_regression_is_declared(parts: list[str], results: list[Result]) -> None:
    text, how = "".join(parts), setting(category=Category.HARNESS_GAP)
    before = verdicts(text, results, how)
    declared = {e.pattern for e in read_entries(text, FILE) if not e.is_glob}
    _, update = updated(text, results, how)
    assert {case for case in update.added if before[case] is Verdict.REGRESSION} <= {
        r.case.id for r in results if not r.passed_before and not r.flaked
    } - declared
    assert not [
        e for e, new in update.replaced.items() if new and before.get(e.pattern) is Verdict.REGRESSION
    ]


@given(files, runs)
def test_ids_outside_the_run_keep_what_was_declared_of_them(parts: list[str], results: list[Result]) -> None:
    text = "".join(parts)
    how = setting(accept_regressions=True, category=Category.CRASH, drop_globs=False)
    new, _ = updated(text, results, how)
    others = [Case(id=case, kind=CaseKind.OPINFO) for case in set(IDS) - {r.case.id for r in results}]
    told = [declare(others, read_entries(t, FILE), "neuron", "2.13.0").cases for t in (text, new)]
    assert told[0] == told[1]


@given(files)
def test_a_file_is_what_its_entries_say(parts: list[str]) -> None:
    entries = read_entries("".join(parts), FILE)
    again = read_entries("".join(_as_text(e) for e in entries), FILE)
    assert [dataclasses.replace(e, line=0) for e in again] == [
        dataclasses.replace(e, line=0) for e in entries
    ]


def _as_text(one: Entry) -> str:
    return entry(
        **{"glob" if one.is_glob else "id": one.pattern}, expectation=one.expectation.value,
        category=one.category.value, reason=one.reason, outcome=one.outcome, stage=one.stage,
    )  # fmt: skip


@given(files, runs)
def test_the_diff_leads_from_the_old_text_to_the_new(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], results: list[Result]
) -> None:
    text = "".join(parts)
    how = setting(accept_regressions=True, category=Category.CRASH)
    update = work_out(results, read_entries(text, FILE), how)
    for edit in edits(update, {FILE: text}, FILE):
        folder = tmp_path_factory.mktemp("diff")
        if edit.old:
            (folder / FILE).write_text(edit.old)
        subprocess.run(["patch", "-s", "-p0"], input=edit.diff.encode(), cwd=folder, check=True)
        assert (folder / FILE).read_text() == edit.new or not edit.new


OLD = f"""# Known of neuron.

# Sums.
{entry(id=IDS[2], owner="kernels", link="https://example.org/7")}# a remark inside

# Everything else.
{entry(id=IDS[0])}
{entry(id=IDS[4])}"""


def test_comments_and_order_stay_and_a_case_that_passes_loses_its_entry() -> None:
    new, update = updated(OLD, [result(IDS[0])], setting())
    assert new == OLD.replace(entry(id=IDS[0]) + "\n", "")
    assert update.removed == 1


def test_a_new_failure_is_written_with_what_is_known_of_it() -> None:
    failed = result(
        IDS[5], Outcome.FAILED_EXCEPTION, exception="builtins.RuntimeError", signature="0123456789abcdef",
        message='"cumsum" not implemented for \'Long\'\nmore',
    )  # fmt: skip
    new, _ = updated(OLD, [failed], setting())
    assert new.startswith(OLD)
    (added,) = read_entries(new[len(OLD) :], FILE)
    assert dataclasses.replace(added, line=0) == Entry(
        pattern=IDS[5], is_glob=False, expectation=Expectation.FAIL, category=Category.DTYPE, path=FILE,
        reason="RuntimeError: \"cumsum\" not implemented for 'Long'", added=TODAY, outcome="failed_exception",
        signature="0123456789abcdef",
    )  # fmt: skip


def test_a_changed_failure_replaces_its_entry_and_keeps_owner_and_link() -> None:
    failed = result(IDS[2], Outcome.CRASHED, message="the process died in test: SIGSEGV")
    text = OLD.replace('expectation = "fail"', 'expectation = "fail"\noutcome = "failed_numeric"', 1)
    assert updated(text, [failed], setting())[1].regressions == [IDS[2]]
    new, _ = updated(text, [failed], setting(accept_regressions=True))
    (changed,) = [e for e in read_entries(new, FILE) if e.pattern == IDS[2]]
    assert (changed.outcome, changed.category, changed.owner) == ("crashed", "crash", "kernels")
    assert changed.link == "https://example.org/7"
    assert "# a remark inside\n\n# Everything else." in new


def test_a_failure_that_tells_no_category_is_left_until_one_is_given() -> None:
    failed = result(IDS[1], Outcome.FAILED_EXCEPTION, message="odd")
    assert updated("", [failed], setting())[1].uncategorised == [failed]
    new, _ = updated("", [failed], setting(category=Category.UPSTREAM_BUG))
    assert read_entries(new, FILE)[0].category is Category.UPSTREAM_BUG


def test_a_case_that_passes_under_a_glob_is_named_beside_it() -> None:
    text = entry(glob="opinfo::op_db::add::*")
    results = [result(IDS[0]), result(IDS[1], Outcome.FAILED_NUMERIC)]
    new, _ = updated(text, results, setting())
    assert new.startswith(text)
    assert set(verdicts(new, results, setting()).values()) == {Verdict.OK, Verdict.KNOWN_FAILURE}


def test_a_glob_of_which_all_pass_goes_only_if_that_is_asked_for() -> None:
    text = entry(glob="opinfo::op_db::add::*")
    results = [result(case) for case in IDS[:2]]
    assert updated(text, results, setting())[0] == ""
    new, update = updated(text, results, setting(drop_globs=False))
    assert new == text
    assert [glob.pattern for glob in update.idle_globs] == ["opinfo::op_db::add::*"]


def test_an_entry_for_another_torch_makes_the_new_one_say_for_which_it_is() -> None:
    text = entry(id=IDS[0], conditions={"torch": "2.12.*"})
    failed = result(IDS[0], Outcome.FAILED_NUMERIC)
    new, update = updated(text, [failed], setting())
    assert not update.conflicts
    assert [e.torch for e in read_entries(new, FILE)] == ["2.12.*", "2.13.*"]
    narrow = entry(id=IDS[0], conditions={"torch": "2.13.1"})
    _, update = updated(narrow, [failed], setting())
    assert (update.conflicts, update.added) == ([IDS[0]], {})


def test_an_entry_that_ends_in_text_of_several_lines_goes_whole() -> None:
    odd = entry(id=IDS[1]) + "link = '''\n# no comment\n[[expect]]\n'''\n"
    assert updated(f"{odd}\n{OLD}", [result(IDS[1])], setting())[0] == OLD
